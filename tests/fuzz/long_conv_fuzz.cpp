// Decodes bytes into a call of long_conv through the C ABI, sound or spoiled, and asks: no crash, no access outside the
// tensors, inputs unchanged, words for each failure and outputs untouched by it, and on success the reference's
// numbers.
#include "support.hpp"

namespace faltung::fuzz {
namespace {

constexpr char const* names[] = {nullptr,           nullptr,         nullptr,         "cpu.direct",
                                 "cpu.transformed", "cpu.reference", "cpu.imaginary", ""};

struct Call {
  Argument x, k, shortcut, dy, y, dx, dk, dshortcut;
  faltung_long_conv_options options;
  faltung_direction direction;
  bool spoiled = false;

  std::vector<Argument*> all() { return {&x, &k, &shortcut, &dy, &y, &dx, &dk, &dshortcut}; }
  std::vector<Argument*> inputs() {
    return direction == FALTUNG_FORWARD ? std::vector{&x, &k, &shortcut} : std::vector{&x, &k, &shortcut, &dy};
  }
  std::vector<Argument*> outputs() {
    return direction == FALTUNG_FORWARD ? std::vector{&y} : std::vector{&dx, &dk, &dshortcut};
  }
};

void shape(Argument& a, Dtype dtype, std::vector<std::int64_t> const& extents) {
  a.tensor.dtype = dtype;
  a.tensor.device = FALTUNG_CPU;
  a.tensor.rank = std::int32_t(extents.size());
  std::copy(extents.begin(), extents.end(), a.tensor.shape);
}

void decode_sound(Bytes& in, Call& call) {
  constexpr Dtype dtypes[] = {FALTUNG_F64, FALTUNG_F32, FALTUNG_F16, FALTUNG_BF16};
  call.direction = in.one_in(2) ? FALTUNG_FORWARD : FALTUNG_BACKWARD;
  faltung_long_conv_options_default(&call.options);
  auto const rank = 1 + in.below(3), limit = rank == 1   ? std::int64_t(70)
                                             : rank == 2 ? std::int64_t(14)
                                                         : std::int64_t(6);
  auto const batch = in.below(4), channels = in.one_in(8) ? 17 + in.below(8) : in.below(4);
  bool const last = in.one_in(2);
  call.options.layout = last ? FALTUNG_CHANNELS_LAST : FALTUNG_CHANNELS_FIRST;
  std::vector<std::int64_t> points, taps;
  for (int i = 0; i < rank; ++i) {
    points.push_back(1 + in.below(limit));
    taps.push_back(1 + in.below(in.one_in(3) ? 2 * points[i] + 2 : 5));
    call.options.boundary[i] = faltung_boundary(in.below(3));
    if (call.options.boundary[i] != FALTUNG_CAUSAL && in.one_in(6))
      call.options.centre[i] = in.below(2) ? in.raw<std::int8_t>() : in.wild();
  }
  auto const place = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> const& spatial) {
    if (!last) shape.push_back(channels);
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    if (last) shape.push_back(channels);
    return shape;
  };
  auto const x_dtype = dtypes[in.below(4)], k_dtype = in.one_in(3) ? dtypes[in.below(4)] : x_dtype;
  auto const x_shape = place({batch}, points);
  auto const sharing = in.below(3);
  auto const k_shape = place(sharing == 0 ? std::vector<std::int64_t>{} : std::vector{sharing == 1 ? 1 : batch}, taps);
  for (Argument* a : {&call.x, &call.dy, &call.y, &call.dx}) shape(*a, x_dtype, x_shape);
  for (Argument* a : {&call.k, &call.dk}) shape(*a, k_dtype, k_shape);
  call.shortcut.null = in.one_in(2);
  auto const shortcut_dtype = call.shortcut.null ? x_dtype : k_dtype;
  for (Argument* a : {&call.shortcut, &call.dshortcut}) shape(*a, shortcut_dtype, {channels});
  for (Argument* a : {&call.x, &call.k, &call.shortcut, &call.dy}) a->choose_strides(in, true);
  for (Argument* a : {&call.y, &call.dx, &call.dk, &call.dshortcut}) a->choose_strides(in, false);
  if (call.direction == FALTUNG_BACKWARD)
    for (Argument* a : call.outputs()) a->null = in.one_in(4);
  call.options.implementation = names[in.below(std::size(names))];
}

void spoil_something(Bytes& in, Call& call) {
  auto& a = *call.all()[in.below(8)];
  auto const axis = in.below(FALTUNG_MAX_RANK);
  call.spoiled = true;
  switch (in.below(11)) {
    case 0:
      a.null = true;
      break;
    case 1:
      a.tensor.rank = in.one_in(2) ? std::int32_t(in.below(9)) - 1 : in.raw<std::int32_t>();
      break;
    case 2:
      a.tensor.shape[axis] = in.one_in(2) ? in.below(8) : in.wild();
      break;
    case 3:
      a.tensor.strides[axis] = in.wild();
      break;
    case 4:
      spoil(in, &a.tensor.dtype);
      break;
    case 5:
      spoil(in, &a.tensor.device);
      break;
    case 6:
      spoil(in, &call.options.layout);
      break;
    case 7:
      spoil(in, &call.options.boundary[in.below(3)]);
      break;
    case 8:
      call.options.centre[in.below(3)] = in.wild();
      break;
    case 9:  // the same extent everywhere: a sound call of a strange shape
      for (auto const extent = in.wild(); Argument * each : {&call.x, &call.dy, &call.y, &call.dx})
        each->tensor.shape[axis] = extent;
      break;
    default:
      call.options.size = std::size_t(in.wild());
  }
}

// Whether running a sound call would take longer than a moment: expanded axes make large tensors of little memory.
bool heavy(Call const& call) {
  double work = 1;
  for (Tensor const* t : {&call.x.tensor, &call.k.tensor})
    for (int i = 0; i < t->rank && i < FALTUNG_MAX_RANK; ++i) work *= double(std::max<std::int64_t>(t->shape[i], 1));
  return work > 4e6;
}

faltung_status run(Call& call, faltung_long_conv_options const* options) {
  return call.direction == FALTUNG_FORWARD
             ? faltung_long_conv_forward(call.x.pointer(), call.k.pointer(), call.shortcut.pointer(), call.y.pointer(),
                                         options)
             : faltung_long_conv_backward(call.dy.pointer(), call.x.pointer(), call.k.pointer(),
                                          call.shortcut.pointer(), call.dx.pointer(), call.dk.pointer(),
                                          call.dshortcut.pointer(), options);
}

void expect_words(faltung_status status) {
  FUZZ_CHECK(status >= FALTUNG_OK && status <= FALTUNG_RUNTIME_ERROR, "status %d", int(status));
  ++statuses[status];
  if (status != FALTUNG_OK) FUZZ_CHECK(faltung_last_error()[0] != '\0', "a failure without words");
}

// What dispatch says about the call without a named implementation.
std::string explanation(Call& call, faltung_long_conv_options const* options) {
  auto free_choice = *options;
  free_choice.implementation = nullptr;
  std::string text(4096, '\0');
  faltung_long_conv_explain(call.direction, call.x.pointer(), call.k.pointer(), call.shortcut.pointer(), &free_choice,
                            text.data(), std::int64_t(text.size()), nullptr);
  return text;
}

// Normwise, with room for cancellation: the fuzz target looks for wrong elements, the grid tests measure rounding.
void compare(Call& call, std::vector<std::vector<double>> const& got, faltung_long_conv_options const* options) {
  std::size_t n = 0;
  double const size = [&] {
    double largest = 1;
    for (Argument* a : call.inputs())
      if (!a->null && a->tensor.data)
        for (double const value : a->values()) largest = std::max(largest, std::abs(value));
    double points = 1;
    for (int i = 0; i < call.x.tensor.rank; ++i) points *= double(call.x.tensor.shape[i]);
    return largest * largest * points;
  }();
  for (Argument* out : call.outputs()) {
    if (out->null || !out->tensor.data) continue;
    auto const expected = out->values();
    auto const rough = std::max(out->dtype(), call.x.dtype());  // fp64, fp32, fp16, bf16 in the order of the enum
    double const epsilon = rough == FALTUNG_F64   ? 0x1p-44
                           : rough == FALTUNG_F32 ? 0x1p-18
                           : rough == FALTUNG_F16 ? 0x1p-9
                                                  : 0x1p-6;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      bool const same = got[n][i] == expected[i] ||
                        std::abs(got[n][i] - expected[i]) <= epsilon * std::max(std::abs(expected[i]), size * 0.01);
      FUZZ_CHECK(same || !std::isfinite(expected[i]), "output %zu, element %zu: expected %g, got %g\n%s", n, i,
                 expected[i], got[n][i], explanation(call, options).c_str());
    }
    ++n;
  }
}

void execute(Bytes& in, Call& call) {
  std::size_t bytes = 0;
  // Options end where their size says.
  auto const options_bytes = std::min(call.options.size, sizeof call.options);
  Guarded options_memory(std::max(options_bytes, sizeof call.options.size), true, alignof(faltung_long_conv_options));
  auto* const options = reinterpret_cast<faltung_long_conv_options*>(options_memory.data());
  auto const store_options = [&] { std::memcpy(static_cast<void*>(options), &call.options, options_memory.size()); };
  store_options();
  auto const direction = in.one_in(20) ? faltung_direction(in.below(4)) : call.direction;
  auto const asked = faltung_long_conv_workspace(direction, call.x.pointer(), call.k.pointer(), call.shortcut.pointer(),
                                                 options, in.one_in(30) ? nullptr : &bytes);
  expect_words(asked);

  auto const capacity = in.one_in(4) ? in.below(100) : in.one_in(10) ? std::int64_t(-5) : std::int64_t(4096);
  Guarded text(std::size_t(std::max<std::int64_t>(capacity, 0)), true);
  std::int64_t needed = -1;
  auto const explained =
      faltung_long_conv_explain(direction, call.x.pointer(), call.k.pointer(), call.shortcut.pointer(), options,
                                reinterpret_cast<char*>(text.data()), capacity, &needed);
  expect_words(explained);
  if (explained == FALTUNG_OK && capacity > 0)
    FUZZ_CHECK(
        std::int64_t(strnlen(reinterpret_cast<char*>(text.data()), text.size())) == std::min(capacity, needed) - 1,
        "text's length");
  if (heavy(call) || bytes > (1u << 26)) return;

  std::unique_ptr<Guarded> workspace;
  if (bytes && !in.one_in(16)) {
    workspace = std::make_unique<Guarded>((bytes + 255) / 256 * 256, true);
    call.options.workspace = workspace->data();
    call.options.workspace_size = in.one_in(16) ? bytes - 1 : bytes;
    store_options();
  }
  std::vector<std::vector<unsigned char>> before, outputs_before;
  for (Argument* a : call.inputs()) before.push_back(a->snapshot());
  for (Argument* a : call.outputs()) outputs_before.push_back(a->snapshot());
  auto const status = run(call, options);
  expect_words(status);
  std::size_t n = 0;
  for (Argument* a : call.inputs()) FUZZ_CHECK(a->snapshot() == before[n++], "an input was written");
  n = 0;
  for (Argument* a : call.outputs()) {
    FUZZ_CHECK(status == FALTUNG_OK || a->snapshot() == outputs_before[n], "a failed call wrote into output %zu", n);
    FUZZ_CHECK(a->gaps_intact(), "output %zu was written outside its elements", n);
    ++n;
  }
  if (status != FALTUNG_OK) return;
  std::vector<std::vector<double>> got;
  for (Argument* a : call.outputs())
    if (!a->null && a->tensor.data) got.push_back(a->values());
  for (Argument* a : call.outputs()) a->poison();
  call.options.implementation = "cpu.reference";
  store_options();
  FUZZ_CHECK(run(call, options) == FALTUNG_OK, "the reference refused: %s", faltung_last_error());
  for (Argument* a : call.inputs())
    if (!a->null && !a->finite()) return;
  for (Argument* a : call.outputs())
    if (!a->null && a->tensor.data && a->overlaps()) return;
  compare(call, got, options);
}

}  // namespace
}  // namespace faltung::fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace faltung::fuzz;
  Bytes in(data, size);
  Call call;
  decode_sound(in, call);
  for (auto spoilers = in.one_in(2) ? in.below(4) : 0; spoilers-- > 0;) spoil_something(in, call);
  for (Argument* a : call.all()) a->allocate(in);
  for (Argument* a : call.inputs()) a->fill(in);
  faltung_set_num_threads(1);
  execute(in, call);
  return 0;
}
