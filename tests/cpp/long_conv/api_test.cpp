// Every bad input gives the error of its kind, in words that name what was expected and what came; explain's choices.
#include "catalogue.hpp"

namespace faltung::testing {
namespace {

// A sound call, which each case spoils.
struct Call {
  Array x_memory{FALTUNG_F32, {2, 3, 5, 6}}, k_memory{FALTUNG_F32, {3, 4, 3}}, y_memory{FALTUNG_F32, {2, 3, 5, 6}};
  Array dk_memory{FALTUNG_F32, {3, 4, 3}}, shortcut_memory{FALTUNG_F32, {3}}, dshortcut_memory{FALTUNG_F32, {3}};
  Tensor x = x_memory.view(), k = k_memory.view(), shortcut = shortcut_memory.view();
  Tensor y = y_memory.view(), dy = x, dx = y, dk = dk_memory.view(), dshortcut = dshortcut_memory.view();
  faltung_long_conv_options options;

  Call() {
    faltung_long_conv_options_default(&options);
    for (Array* array : {&x_memory, &k_memory, &shortcut_memory})
      array->assign(std::vector<double>(array->count(), 1.0));
  }
  faltung_status forward() { return faltung_long_conv_forward(&x, &k, &shortcut, &y, &options); }
  faltung_status backward() {
    return faltung_long_conv_backward(&dy, &x, &k, &shortcut, &dx, &dk, &dshortcut, &options);
  }
};

// An enumerator that the header does not have, as a C caller may write it.
template <typename Enum>
void spoil(Enum& target, int value) {
  static_assert(sizeof(Enum) == sizeof value);
  std::memcpy(&target, &value, sizeof value);
}

enum In : int { forward = 1, backward = 2, both = 3 };

struct Bad {
  char const* name;
  In direction;
  faltung_status status;
  std::vector<char const*> words;  // expected and got
  void (*apply)(Call&);
};

Bad const bad_inputs[] = {
    {"x of rank 2",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"x must be [batch, channels, 1 to 3 spatial axes]", "[2, 3]"},
     [](Call& c) { c.x.rank = 2; }},
    {"x of rank 6",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"1 to 3 spatial axes", "[2, 3, 5, 6, 1, 1]"},
     [](Call& c) {
       c.x.rank = 6;
       c.x.shape[4] = c.x.shape[5] = 1;
     }},
    {"rank 7", both, FALTUNG_INVALID_ARGUMENT, {"rank from 0 to 6", "7"}, [](Call& c) { c.x.rank = 7; }},
    {"rank -1",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k: expected a rank from 0 to 6", "-1"},
     [](Call& c) { c.k.rank = -1; }},
    {"negative extent",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"x: extents must not be negative", "[2, -3, 5, 6]"},
     [](Call& c) { c.x.shape[1] = -3; }},
    {"spatial extent 0",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"x: spatial extents must be at least 1", "[2, 3, 0, 6]"},
     [](Call& c) { c.x.shape[2] = 0; }},
    {"filter extent 0",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k: spatial extents must be at least 1", "[3, 4, 0]"},
     [](Call& c) { c.k.shape[2] = 0; }},
    {"k without spatial axes",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k must have 3 axes", "[3, 4]"},
     [](Call& c) { c.k.rank = 2; }},
    {"k of rank 5",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k must have 3 axes", "[3, 4, 3, 1, 1]"},
     [](Call& c) {
       c.k.rank = 5;
       c.k.shape[3] = c.k.shape[4] = 1;
     }},
    {"channels differ",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k has 2 channels", "x has 3"},
     [](Call& c) { c.k.shape[0] = 2; }},
    {"channels last misread",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k has 3 channels", "x has 6"},
     [](Call& c) { c.options.layout = FALTUNG_CHANNELS_LAST; }},
    {"batch of k",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k has a batch of 5", "1 or that of x, 2"},
     [](Call& c) {
       c.k = view(static_cast<float*>(c.k_memory.data()), {5, 3, 1, 1});
     }},
    {"integer x",
     both,
     FALTUNG_INVALID_TYPE,
     {"x: expected a floating dtype", "int32"},
     [](Call& c) { c.x.dtype = FALTUNG_I32; }},
    {"integer k",
     both,
     FALTUNG_INVALID_TYPE,
     {"k: expected a floating dtype", "int64"},
     [](Call& c) { c.k.dtype = FALTUNG_I64; }},
    {"unknown dtype",
     both,
     FALTUNG_INVALID_TYPE,
     {"x: expected a value of faltung_dtype", "77"},
     [](Call& c) { spoil(c.x.dtype, 77); }},
    {"unknown device",
     both,
     FALTUNG_INVALID_TYPE,
     {"k: expected a value of faltung_device_type", "9"},
     [](Call& c) { spoil(c.k.device, 9); }},
    {"k elsewhere",
     both,
     FALTUNG_INVALID_TYPE,
     {"k is on cuda:1", "x is on cpu"},
     [](Call& c) {
       c.k.device = FALTUNG_CUDA;
       c.k.device_index = 1;
     }},
    {"no data of x",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"x: expected data for shape [2, 3, 5, 6]", "NULL"},
     [](Call& c) { c.x.data = nullptr; }},
    {"no data of k", both, FALTUNG_INVALID_ARGUMENT, {"k: expected data", "NULL"}, [](Call& c) { c.k.data = nullptr; }},
    {"no data of y",
     forward,
     FALTUNG_INVALID_ARGUMENT,
     {"y: expected data", "NULL"},
     [](Call& c) { c.y.data = nullptr; }},
    {"no data of dy",
     backward,
     FALTUNG_INVALID_ARGUMENT,
     {"dy: expected data", "NULL"},
     [](Call& c) { c.dy.data = nullptr; }},
    {"y of another shape",
     forward,
     FALTUNG_INVALID_ARGUMENT,
     {"y must have the shape of x, [2, 3, 5, 6]", "[2, 3, 5, 5]"},
     [](Call& c) { c.y.shape[3] = 5; }},
    {"y of another dtype",
     forward,
     FALTUNG_INVALID_TYPE,
     {"y is bfloat16", "x is float32"},
     [](Call& c) { c.y.dtype = FALTUNG_BF16; }},
    {"y of another rank",
     forward,
     FALTUNG_INVALID_ARGUMENT,
     {"y must have the shape of x", "[2, 3, 5]"},
     [](Call& c) { c.y.rank = 3; }},
    {"y with stride 0",
     forward,
     FALTUNG_INVALID_ARGUMENT,
     {"y: an output must not have stride 0 on axis 2", "5 elements"},
     [](Call& c) { c.y.strides[2] = 0; }},
    {"dx with stride 0",
     backward,
     FALTUNG_INVALID_ARGUMENT,
     {"dx: an output must not have stride 0 on axis 0", "2 elements"},
     [](Call& c) { c.dx.strides[0] = 0; }},
    {"dk with stride 0",
     backward,
     FALTUNG_INVALID_ARGUMENT,
     {"dk: an output must not have stride 0 on axis 1", "4 elements"},
     [](Call& c) { c.dk.strides[1] = 0; }},
    {"dshortcut with stride 0",
     backward,
     FALTUNG_INVALID_ARGUMENT,
     {"dshortcut: an output must not have stride 0", "3 elements"},
     [](Call& c) { c.dshortcut.strides[0] = 0; }},
    {"dk of another shape",
     backward,
     FALTUNG_INVALID_ARGUMENT,
     {"dk must have the shape of k, [3, 4, 3]", "[3, 4, 4]"},
     [](Call& c) { c.dk.shape[2] = 4; }},
    {"dk of another dtype",
     backward,
     FALTUNG_INVALID_TYPE,
     {"dk is float16", "k is float32"},
     [](Call& c) { c.dk.dtype = FALTUNG_F16; }},
    {"dshortcut of another dtype",
     backward,
     FALTUNG_INVALID_TYPE,
     {"dshortcut is float16", "shortcut is float32"},
     [](Call& c) { c.dshortcut.dtype = FALTUNG_F16; }},
    {"dy of another shape",
     backward,
     FALTUNG_INVALID_ARGUMENT,
     {"dy must have the shape of x, [2, 3, 5, 6]", "[1, 3, 5, 6]"},
     [](Call& c) { c.dy.shape[0] = 1; }},
    {"shortcut of rank 2",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"shortcut: expected shape [channels]", "[3, 1]"},
     [](Call& c) {
       c.shortcut.rank = 2;
       c.shortcut.shape[1] = 1;
     }},
    {"shortcut of other channels",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"shortcut has 2 channels", "x has 3"},
     [](Call& c) { c.shortcut.shape[0] = 2; }},
    {"integer shortcut",
     both,
     FALTUNG_INVALID_TYPE,
     {"shortcut: expected a floating dtype", "int32"},
     [](Call& c) { c.shortcut.dtype = FALTUNG_I32; }},
    {"unknown layout",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"layout: expected a value of faltung_layout", "4"},
     [](Call& c) { spoil(c.options.layout, 4); }},
    {"unknown boundary",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"boundary[1]: expected a value of faltung_boundary", "-2"},
     [](Call& c) { spoil(c.options.boundary[1], -2); }},
    {"centre of a causal axis",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"centre[0]: a causal axis has centre 0", "1"},
     [](Call& c) {
       c.options.boundary[0] = FALTUNG_CAUSAL;
       c.options.centre[0] = 1;
     }},
    {"centre out of range",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"centre[1]: expected a magnitude below 2^62", "4611686018427387904"},
     [](Call& c) { c.options.centre[1] = std::int64_t(1) << 62; }},
    {"options without size",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"options.size: expected", "got 0"},
     [](Call& c) { c.options.size = 0; }},
    {"strides beyond 64 bits",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"x: shape [2, 3, 5, 6]", "64 bits"},
     [](Call& c) { c.x.strides[0] = INT64_MAX; }},
    {"stride INT64_MIN",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"k: shape [3, 4, 3]", "-9223372036854775808"},
     [](Call& c) { c.k.strides[1] = INT64_MIN; }},
    {"extents beyond 64 bits",
     both,
     FALTUNG_INVALID_ARGUMENT,
     {"x: shape", "64 bits"},
     [](Call& c) {
       for (int i = 0; i < 4; ++i) c.x.shape[i] = std::int64_t(1) << 40, c.x.strides[i] = 0;
     }},
    {"unknown implementation",
     both,
     FALTUNG_UNSUPPORTED,
     {"no implementation accepts this call", "chosen: none"},
     [](Call& c) { c.options.implementation = "cpu.imaginary"; }},
    {"CUDA without its library",
     both,
     FALTUNG_UNSUPPORTED,
     {"CUDA", "libfaltung_cuda"},
     [](Call& c) {
       for (Tensor* t : {&c.x, &c.k, &c.shortcut, &c.y, &c.dy, &c.dx, &c.dk, &c.dshortcut}) t->device = FALTUNG_CUDA;
     }},
};

void expect_failure(Bad const& bad, char const* direction, faltung_status status) {
  SCOPED_TRACE(std::string(direction) + ": " + bad.name);
  EXPECT_EQ(status, bad.status);
  std::string const message = faltung_last_error();
  for (char const* word : bad.words)
    EXPECT_NE(message.find(word), std::string::npos) << "expected '" << word << "' in: " << message;
}

TEST(LongConvApi, bad_inputs_are_told_apart) {
  for (auto const& bad : bad_inputs) {
    if (bad.direction & forward) {
      Call call;
      bad.apply(call);
      expect_failure(bad, "forward", call.forward());
      EXPECT_TRUE(call.y_memory.memory() == Call().y_memory.memory()) << bad.name << ": a failed call wrote into y";
    }
    if (bad.direction & backward) {
      Call call;
      bad.apply(call);
      expect_failure(bad, "backward", call.backward());
    }
  }
}

TEST(LongConvApi, sound_calls_pass) {
  Call call;
  EXPECT_EQ(call.forward(), FALTUNG_OK) << faltung_last_error();
  EXPECT_EQ(call.backward(), FALTUNG_OK) << faltung_last_error();
}

TEST(LongConvApi, missing_arguments_are_named) {
  Call c;
  EXPECT_EQ(faltung_long_conv_forward(nullptr, &c.k, nullptr, &c.y, nullptr), FALTUNG_INVALID_ARGUMENT);
  EXPECT_STREQ(faltung_last_error(), "x: expected a value, got NULL");
  EXPECT_EQ(faltung_long_conv_forward(&c.x, nullptr, nullptr, &c.y, nullptr), FALTUNG_INVALID_ARGUMENT);
  EXPECT_STREQ(faltung_last_error(), "k: expected a value, got NULL");
  EXPECT_EQ(faltung_long_conv_forward(&c.x, &c.k, nullptr, nullptr, nullptr), FALTUNG_INVALID_ARGUMENT);
  EXPECT_STREQ(faltung_last_error(), "y: expected a value, got NULL");
  EXPECT_EQ(faltung_long_conv_backward(nullptr, &c.x, &c.k, nullptr, &c.dx, nullptr, nullptr, nullptr),
            FALTUNG_INVALID_ARGUMENT);
  EXPECT_STREQ(faltung_last_error(), "dy: expected a value, got NULL");
  EXPECT_EQ(faltung_long_conv_workspace(FALTUNG_FORWARD, &c.x, &c.k, nullptr, nullptr, nullptr),
            FALTUNG_INVALID_ARGUMENT);
  EXPECT_STREQ(faltung_last_error(), "bytes: expected a value, got NULL");
  EXPECT_EQ(faltung_long_conv_explain(FALTUNG_FORWARD, &c.x, &c.k, nullptr, nullptr, nullptr, 8, nullptr),
            FALTUNG_INVALID_ARGUMENT);
  EXPECT_STREQ(faltung_last_error(), "text: expected a buffer of 8 bytes, got NULL");
}

TEST(LongConvApi, unread_inputs_need_no_data) {
  Call c;
  c.x.data = nullptr;
  EXPECT_EQ(faltung_long_conv_backward(&c.dy, &c.x, &c.k, nullptr, &c.dx, nullptr, nullptr, nullptr), FALTUNG_OK)
      << faltung_last_error();
  c.x.data = c.x_memory.data();
  c.k.data = nullptr;
  EXPECT_EQ(faltung_long_conv_backward(&c.dy, &c.x, &c.k, nullptr, nullptr, &c.dk, nullptr, nullptr), FALTUNG_OK)
      << faltung_last_error();
  c.x.data = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(faltung_long_conv_workspace(FALTUNG_BACKWARD, &c.x, &c.k, nullptr, nullptr, &bytes), FALTUNG_OK)
      << faltung_last_error();
}

TEST(LongConvApi, exceptions_carry_the_status) {
  Call c;
  c.k.shape[0] = 2;
  try {
    long_conv::forward(c.x, c.k, c.y);
    FAIL() << "expected faltung::Error";
  } catch (Error const& error) {
    EXPECT_EQ(error.status(), FALTUNG_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("k has 2 channels, x has 3"), std::string::npos) << error.what();
  }
  EXPECT_THROW(view(static_cast<float*>(nullptr), {1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(view(static_cast<float*>(nullptr), {1, 2, 3}, {1, 2}), Error);
}

TEST(LongConvApi, text_is_cut_to_the_capacity) {
  Call c;
  std::int64_t needed = 0;
  ASSERT_EQ(faltung_long_conv_explain(FALTUNG_FORWARD, &c.x, &c.k, nullptr, nullptr, nullptr, 0, &needed), FALTUNG_OK);
  std::vector<char> exact(needed + 1, '#'), cut(12, '#');
  ASSERT_EQ(faltung_long_conv_explain(FALTUNG_FORWARD, &c.x, &c.k, nullptr, nullptr, exact.data(), needed, nullptr),
            FALTUNG_OK);
  EXPECT_EQ(std::strlen(exact.data()), std::size_t(needed - 1));
  EXPECT_EQ(exact.back(), '#');
  ASSERT_EQ(faltung_long_conv_explain(FALTUNG_FORWARD, &c.x, &c.k, nullptr, nullptr, cut.data(), 10, nullptr),
            FALTUNG_OK);
  EXPECT_EQ(std::string(cut.data()), std::string(exact.data()).substr(0, 9));
  EXPECT_EQ(cut[10], '#');
}

}  // namespace
}  // namespace faltung::testing
