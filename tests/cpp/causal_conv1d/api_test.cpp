// The C ABI and its veneer: prepared calls, injected threads, the update, which data is needed when, and errors of each
// kind in words.
#include <thread>

#include "case.hpp"

namespace faltung::testing {
namespace {

namespace conv = causal_conv1d;

// Three threads, each a third.
void three_threads(void*, std::int64_t count, faltung_body body, void* argument) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([=] {
      auto const begin = count * i / 3, end = count * (i + 1) / 3;
      if (begin < end) body(argument, begin, end);
    });
  for (auto& thread : threads) thread.join();
}

Case typical(std::int64_t time, Layout layout, Cut cut = Cut::whole) {
  Case c{.batch = cut == Cut::packed ? 1 : 3,
         .time = time,
         .channels = 45,
         .x_dtype = FALTUNG_BF16,
         .weight_dtype = FALTUNG_F32,
         .state_dtype = FALTUNG_BF16,
         .layout = layout,
         .cut = cut};
  if (cut == Cut::packed) c.lengths = {time / 2, 0, time - time / 2};
  return c;
}

TEST(CausalConv1dPrepared, ServesAnyTimeAndBatchOfTheSignature) {
  for (auto const layout : {Layout::channels_first, Layout::channels_last})
    for (auto const cut : {Cut::whole, Cut::packed}) {
      auto const first = typical(9, layout, cut);
      auto const in = make_inputs(first);
      Outputs out(first, Arrangement::contiguous);
      // Validation reads no data.
      auto const without_data = [](Array const& array) {
        auto tensor = array.view();
        tensor.data = nullptr;
        return tensor;
      };
      auto options = options_of(first, in, "cpu.simd");
      conv::Prepared const prepared(without_data(in.x), without_data(in.weight), without_data(out.y),
                                    out.final_state.view(), options);
      for (std::int64_t const time : {0, 1, 40, 700}) {
        auto c = typical(time, layout, cut);
        c.arrangement = time == 40 ? Arrangement::pitched : Arrangement::contiguous;
        if (cut == Cut::whole) c.batch = 1 + time % 4;
        auto const inputs = make_inputs(c, 7);
        Outputs expected(c, Arrangement::contiguous), got(c, Arrangement::contiguous);
        options = options_of(c, inputs, "cpu.simd");
        conv::forward(inputs.x.view(), inputs.weight.view(), expected.y.view(), expected.final_state.view(), options);
        prepared.launch(inputs.x.view(), inputs.weight.view(), got.y.view(), got.final_state.view(), options);
        EXPECT_EQ(got.y.all_bits(), expected.y.all_bits()) << c.name();
        EXPECT_EQ(got.final_state.all_bits(), expected.final_state.all_bits()) << c.name();
      }
    }
}

TEST(CausalConv1dPrepared, IsRefusedWhereTheCallWouldBe) {
  auto const c = typical(9, Layout::channels_first);
  auto const in = make_inputs(c);
  Outputs out(c, Arrangement::contiguous);
  auto weight = in.weight.view();
  weight.shape[1] = 300;
  faltung_causal_conv1d_prepared* prepared = nullptr;
  auto const x = in.x.view(), y = out.y.view();
  EXPECT_EQ(faltung_causal_conv1d_prepare(&x, &weight, &y, nullptr, nullptr, &prepared), FALTUNG_INVALID_ARGUMENT);
  EXPECT_EQ(prepared, nullptr);
  EXPECT_NE(std::string(faltung_last_error()).find("width from 1 to 256, got 300"), std::string::npos)
      << faltung_last_error();
  faltung_causal_conv1d_destroy(nullptr);
}

TEST(CausalConv1dThreads, InjectedOnesChangeNoBit) {
  for (auto const layout : {Layout::channels_first, Layout::channels_last})
    for (auto const cut : {Cut::whole, Cut::packed}) {
      auto const c = typical(3000, layout, cut);
      auto const in = make_inputs(c);
      auto const one = run(c, in, "cpu.simd", Arrangement::contiguous);
      auto const three = run(c, in, "cpu.simd", Arrangement::contiguous, three_threads);
      for (std::size_t i = 0; i < one.all().size(); ++i)
        EXPECT_EQ(one.all()[i].second->all_bits(), three.all()[i].second->all_bits()) << one.all()[i].first;
    }
}

TEST(CausalConv1dUpdate, EqualsTheForwardAndTheReference) {
  for (auto const& implementation : implementations()) {
    auto const x = filled(FALTUNG_F32, {4, 37, 12}, Arrangement::contiguous, 1, 1);
    auto const weight = filled(FALTUNG_F32, {37, 4}, Arrangement::pitched, 0.5, 2);
    Array y(FALTUNG_F32, {4, 37, 12}), state(FALTUNG_F32, {4, 37, 3});
    conv::forward(x.view(), weight.view(), y.view(), state.view(),
                  {.activation = conv::Activation::silu, .implementation = implementation.c_str()});
    // The state before the last 5 tokens, then those tokens at once.
    Array early(FALTUNG_F32, {4, 37, 3}), head(FALTUNG_F32, {4, 37, 7}), tail(FALTUNG_F32, {4, 37, 5});
    auto part = x.view();
    part.shape[2] = 7;
    conv::forward(part, weight.view(), head.view(), early.view(), {.implementation = implementation.c_str()});
    part.data = static_cast<float*>(part.data) + 7;
    part.shape[2] = 5;
    conv::update(part, early.view(), weight.view(), tail.view(),
                 {.activation = conv::Activation::silu, .implementation = implementation.c_str()});
    for (std::int64_t row = 0; row < 4 * 37; ++row)
      for (std::int64_t t = 0; t < 5; ++t)
        EXPECT_EQ(tail.bits(row * 5 + t), y.bits(row * 12 + 7 + t)) << implementation;
    EXPECT_EQ(early.all_bits(), state.all_bits()) << implementation;
  }
}

// Content that is out of order is found where the caller asks for it.
TEST(CausalConv1dUpdate, ChecksItsIndices) {
  auto const x = filled(FALTUNG_F32, {2, 3}, Arrangement::contiguous, 1, 1),
             weight = filled(FALTUNG_F32, {3, 4}, Arrangement::contiguous, 1, 2);
  Array y(FALTUNG_F32, {2, 3});
  auto state = filled(FALTUNG_F32, {5, 3, 6}, Arrangement::contiguous, 1, 3);
  auto const message = [&](conv::UpdateOptions options) {
    options.content = conv::Content::checked;
    try {
      conv::update(x.view(), state.view(), weight.view(), y.view(), options);
    } catch (Error const& error) {
      EXPECT_EQ(error.status(), FALTUNG_INVALID_ARGUMENT);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  std::int32_t const slots[] = {-1, 5}, counts[] = {1, 6};
  EXPECT_EQ(message({.state_indices = view(slots, {2})}),
            "state_indices[1]: expected less than the 5 slots of the state, got 5");
  std::int32_t const fine[] = {4, -1};
  EXPECT_EQ(
      message({.window = conv::Window::leading, .state_indices = view(fine, {2}), .num_accepted = view(counts, {2})}),
      "num_accepted[1]: expected 1 to 4 for a state of 6 columns and width 4, got 6");
  EXPECT_EQ(message({.state_indices = view(fine, {2})}), "no error");
}

struct Bad {
  char const* name;
  faltung_status status;
  std::vector<char const*> words;
  void (*spoil)(Tensor& x, Tensor& weight, Tensor& y, faltung_causal_conv1d_options& options);
};

TEST(CausalConv1dErrors, SayExpectedAndGot) {
  static Array index(FALTUNG_F32, {4});
  static Tensor other;
  Bad const bad[] = {
      {"rank",
       FALTUNG_INVALID_ARGUMENT,
       {"[batch, channels, time]", "[3, 45]"},
       [](Tensor& x, Tensor&, Tensor&, auto&) { x.rank = 2; }},
      {"y's shape",
       FALTUNG_INVALID_ARGUMENT,
       {"y must have the shape of x, [3, 45, 9]", "[3, 45, 8]"},
       [](Tensor&, Tensor&, Tensor& y, auto&) { y.shape[2] = 8; }},
      {"y's dtype",
       FALTUNG_INVALID_TYPE,
       {"y is float64, x is bfloat16"},
       [](Tensor&, Tensor&, Tensor& y, auto&) { y.dtype = FALTUNG_F64; }},
      {"an expanded y",
       FALTUNG_INVALID_ARGUMENT,
       {"stride 0 on axis 1"},
       [](Tensor&, Tensor&, Tensor& y, auto&) { y.strides[1] = 0; }},
      {"no data",
       FALTUNG_INVALID_ARGUMENT,
       {"x: expected data", "NULL"},
       [](Tensor& x, Tensor&, Tensor&, auto&) { x.data = nullptr; }},
      {"an integer weight",
       FALTUNG_INVALID_TYPE,
       {"weight: expected a floating dtype, got int32"},
       [](Tensor&, Tensor& w, Tensor&, auto&) { w.dtype = FALTUNG_I32; }},
      {"another device",
       FALTUNG_INVALID_TYPE,
       {"weight is on cuda:0, x is on cpu"},
       [](Tensor&, Tensor& w, Tensor&, auto&) { w.device = FALTUNG_CUDA; }},
      {"small options",
       FALTUNG_INVALID_ARGUMENT,
       {"options.size", "got 8"},
       [](Tensor&, Tensor&, Tensor&, auto& o) { o.size = 8; }},
      {"an unknown implementation",
       FALTUNG_UNSUPPORTED,
       {"another one was asked for by name", "chosen: none"},
       [](Tensor&, Tensor&, Tensor&, auto& o) { o.implementation = "cpu.none"; }},
      {"floating lengths",
       FALTUNG_INVALID_TYPE,
       {"lengths: expected int32 or int64, got float32"},
       [](Tensor&, Tensor&, Tensor&, auto& o) {
         other = index.view();
         o.lengths = &other;
       }},
      {"lengths without data",
       FALTUNG_INVALID_ARGUMENT,
       {"lengths: expected data"},
       [](Tensor&, Tensor&, Tensor&, auto& o) {
         other = view(static_cast<std::int32_t*>(nullptr), {3});
         o.lengths = &other;
       }},
  };
  auto const c = typical(9, Layout::channels_first);
  auto const in = make_inputs(c);
  for (auto const& entry : bad) {
    Outputs out(c, Arrangement::contiguous);
    auto x = in.x.view(), weight = in.weight.view(), y = out.y.view();
    faltung_causal_conv1d_options options;
    faltung_causal_conv1d_options_default(&options);
    entry.spoil(x, weight, y, options);
    EXPECT_EQ(faltung_causal_conv1d_forward(&x, &weight, &y, nullptr, &options), entry.status) << entry.name;
    for (auto const words : entry.words)
      EXPECT_NE(std::string(faltung_last_error()).find(words), std::string::npos)
          << entry.name << ": " << faltung_last_error();
    EXPECT_TRUE(std::all_of(out.y.memory().begin(), out.y.memory().end(), [](unsigned char b) { return b == 0xff; }))
        << entry.name;
  }
}

// The cut is read whatever else is; x and the weight only by what needs them.
TEST(CausalConv1dBackward, NeedsTheDataThatItReads) {
  auto c = typical(9, Layout::channels_first);
  c.cut = Cut::padded;
  c.lengths = {3, 9, 0};
  auto const in = make_inputs(c);
  Outputs out(c, Arrangement::contiguous);
  auto options = options_of(c, in, "cpu.simd", true);
  auto x = in.x.view(), weight = in.weight.view();
  x.data = weight.data = nullptr;
  conv::backward(in.dy.view(), x, weight, {}, {.dresidual = out.dresidual.view()}, options);
  for (std::int64_t i = 0; i < out.dresidual.count(); ++i)
    EXPECT_EQ(out.dresidual.get(i), i % 9 < c.lengths[i / 9 / 45] ? in.dy.get(i) : 0.0);
  EXPECT_THROW(conv::backward(in.dy.view(), x, weight, {}, {.dweight = out.dweight.view()}, options), Error);
  options.lengths->data = nullptr;
  EXPECT_THROW(conv::backward(in.dy.view(), x, weight, {}, {.dresidual = out.dresidual.view()}, options), Error);
}

// Extents that no loop could walk, in tensors without elements.
TEST(CausalConv1dLimits, EmptyTensorsOfAnyExtent) {
  float nothing = 0;
  auto const weight = filled(FALTUNG_F32, {3, 4}, Arrangement::contiguous, 1, 1);
  for (auto const huge : {std::int64_t(1) << 40, INT64_MAX}) {
    auto const no_time = view(&nothing, {huge, 3, 0}, {0, 0, 1}), no_batch = view(&nothing, {0, 3, huge}, {0, 0, 1});
    Array dweight(FALTUNG_F32, {3, 4});
    for (auto const& x : {no_time, no_batch}) {
      conv::forward(x, weight.view(), x);
      conv::backward(x, x, weight.view(), {}, {.dx = x, .dweight = dweight.view()});
      EXPECT_EQ(dweight.values(), std::vector<double>(12, 0.0));
    }
  }
}

}  // namespace
}  // namespace faltung::testing
