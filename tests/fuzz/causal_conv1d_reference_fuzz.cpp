// Decodes bytes into a call of causal_conv1d, as causal_conv1d_fuzz.cpp does, and compares every output of a call that
// succeeds with the reference's; index tensors of any content included, but for slots that two rows share.
#include "support.hpp"

namespace faltung::fuzz {
namespace {

enum class Kind { forward, backward, update };

// Names of arguments; each call uses those of its kind.
enum Name {
  x,
  weight,
  bias,
  residual,
  state,
  cut,
  dy,
  dfinal,
  source,
  destination,
  position,
  accepted,
  y,
  final_state,
  dx,
  dweight,
  dbias,
  dstate,
  dresidual,
  names
};

struct Call {
  Kind kind;
  Argument arguments[names];
  faltung_causal_conv1d_options options;
  faltung_causal_conv1d_update_options update_options;
  int cut_as = 0;  // 0 none, 1 cu_seqlens (query_start_loc), 2 seq_idx, 3 lengths

  std::vector<Name> inputs() const {
    switch (kind) {
      case Kind::forward:
        return {x, weight, bias, residual, state, cut};
      case Kind::backward:
        return {x, weight, bias, state, cut, dy, dfinal};
      default:
        return {x, weight, bias, cut, source, destination, position, accepted};
    }
  }
  std::vector<Name> outputs() const {
    switch (kind) {
      case Kind::forward:
        return {y, final_state};
      case Kind::backward:
        return {dx, dweight, dbias, dstate, dresidual};
      default:
        return {y, state};
    }
  }
  Tensor* pointer(Name name) { return arguments[name].pointer(); }
};

void shape(Argument& a, Dtype dtype, std::vector<std::int64_t> const& extents) {
  a.tensor.dtype = dtype;
  a.tensor.device = FALTUNG_CPU;
  a.tensor.rank = std::int32_t(extents.size());
  std::copy(extents.begin(), extents.end(), a.tensor.shape);
}

void decode_sound(Bytes& in, Call& c) {
  constexpr Dtype dtypes[] = {FALTUNG_F64, FALTUNG_F32, FALTUNG_F16, FALTUNG_BF16};
  c.kind = Kind(in.below(3));
  bool const update = c.kind == Kind::update, last = in.one_in(2);
  auto const width = in.one_in(10) ? 1 + in.below(40) : 1 + in.below(6),
             channels = in.one_in(5) ? in.below(70) : in.below(9);
  auto const time = in.one_in(4) ? in.below(140) : in.below(9);
  c.cut_as = update ? int(in.one_in(3)) : int(in.below(4));
  bool const packed = c.cut_as == 1;
  auto const batch = packed && !update ? 1 : in.below(4), sequences = packed ? in.below(5) : batch;
  auto const x_dtype = dtypes[in.below(4)], other = in.one_in(3) ? dtypes[in.below(4)] : x_dtype,
             state_dtype = in.one_in(4) ? dtypes[in.below(4)] : x_dtype;
  auto const index_dtype = in.one_in(2) && !update ? FALTUNG_I64 : FALTUNG_I32;
  std::vector<std::int64_t> tokens = last ? std::vector{batch, time, channels} : std::vector{batch, channels, time};
  if (update && packed) tokens = {time, channels};
  if (update && !packed && in.one_in(3)) tokens = {batch, channels};
  auto const columns =
      update ? std::max<std::int64_t>(width - 1, 0) + in.below(4) + (in.one_in(3) ? time : 0) : width - in.below(2);
  auto const slots = update && in.one_in(2) ? in.below(6) : sequences;
  for (auto const name : {x, residual, dy, y, dx, dresidual}) shape(c.arguments[name], x_dtype, tokens);
  for (auto const name : {weight, dweight}) shape(c.arguments[name], other, {channels, width});
  for (auto const name : {bias, dbias}) shape(c.arguments[name], other, {channels});
  for (auto const name : {state, dstate}) shape(c.arguments[name], state_dtype, {slots, channels, columns});
  for (auto const name : {final_state, dfinal})
    shape(c.arguments[name], state_dtype, {sequences, channels, width - in.below(2)});
  for (auto const name : {source, destination, position, accepted}) shape(c.arguments[name], FALTUNG_I32, {sequences});
  shape(c.arguments[cut], c.cut_as == 2 ? FALTUNG_I32 : index_dtype,
        c.cut_as == 2   ? std::vector{batch, time}
        : c.cut_as == 1 ? std::vector{sequences + 1}
                        : std::vector{batch});
  for (int name = 0; name < names; ++name) c.arguments[name].choose_strides(in, name < y && !(update && name == state));
  for (auto const name : {bias, residual, dfinal, final_state, source, destination, dx, dweight, dbias, dresidual})
    c.arguments[name].null = in.one_in(3);
  c.arguments[state].null = !update && in.one_in(3);
  c.arguments[dstate].null = c.arguments[state].null || in.one_in(3);
  if (slots == sequences && in.one_in(2)) c.arguments[source].null = true;
  faltung_causal_conv1d_options_default(&c.options);
  faltung_causal_conv1d_update_options_default(&c.update_options);
  auto const window = faltung_window(in.below(3));
  c.arguments[position].null = window != FALTUNG_RING;
  c.arguments[accepted].null = window != FALTUNG_LEADING || in.one_in(2);
  constexpr char const* implementations[] = {nullptr, nullptr, nullptr, "cpu.simd", "cpu.reference", "cpu.imaginary"};
  auto const implementation = implementations[in.below(std::size(implementations))];
  auto const activation = faltung_activation(in.below(2));
  auto const layout = last ? FALTUNG_CHANNELS_LAST : FALTUNG_CHANNELS_FIRST;
  bool const check = in.one_in(4);
  c.options.layout = c.update_options.layout = layout;
  c.options.activation = c.update_options.activation = activation;
  c.options.implementation = c.update_options.implementation = implementation;
  c.options.check = c.update_options.check = check;
  c.update_options.window = window;
}

void spoil_something(Bytes& in, Call& c) {
  auto& a = c.arguments[in.below(names)];
  auto const axis = in.below(FALTUNG_MAX_RANK);
  switch (in.below(10)) {
    case 0:
      a.null = !a.null;
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
      spoil(in, c.kind == Kind::update ? &c.update_options.layout : &c.options.layout);
      break;
    case 7:
      spoil(in, c.kind == Kind::update ? static_cast<void*>(&c.update_options.window) : &c.options.activation);
      break;
    case 8:  // the same extent everywhere: a sound call of a strange shape
      for (auto const extent = in.wild(); auto const name : {x, residual, dy, y, dx, dresidual})
        c.arguments[name].tensor.shape[axis] = extent;
      break;
    default:
      (c.kind == Kind::update ? c.update_options.size : c.options.size) = std::size_t(in.wild());
  }
}

// Index tensors: plausible content, or any.
void fill_index(Bytes& in, Argument& a) {
  if (!a.tensor.data || (a.dtype() != FALTUNG_I32 && a.dtype() != FALTUNG_I64)) return;
  bool const any = in.one_in(3);
  std::int64_t value = 0;
  for_each_element(a.tensor, [&](std::int64_t at) {
    value = any ? (in.one_in(2) ? in.raw<std::int32_t>() : in.raw<std::int8_t>()) : value + in.below(5);
    if (a.dtype() == FALTUNG_I64)
      static_cast<std::int64_t*>(a.tensor.data)[at] = value;
    else
      static_cast<std::int32_t*>(a.tensor.data)[at] = std::int32_t(value);
  });
}

// Two rows with one slot give undefined values: no numbers to compare then.
bool slots_are_apart(Call& c) {
  std::vector<std::int64_t> seen;
  for (auto const name : {source, destination}) {
    auto& a = c.arguments[name];
    if (a.null || !a.tensor.data) continue;
    for_each_element(a.tensor, [&](std::int64_t at) { seen.push_back(static_cast<std::int32_t*>(a.tensor.data)[at]); });
  }
  std::sort(seen.begin(), seen.end());
  // Without state_indices row n has slot n, which a destination may name too.
  bool const implicit = c.arguments[source].null && !c.arguments[destination].null;
  return !implicit && std::adjacent_find(seen.begin(), seen.end()) == seen.end();
}

bool heavy(Call const& c) {
  for (auto const& a : c.arguments) {
    double count = 1;
    for (int i = 0; i < a.tensor.rank && i < FALTUNG_MAX_RANK; ++i)
      count *= double(std::max<std::int64_t>(a.tensor.shape[i], 1));
    if (!a.null && count > 1e6) return true;
  }
  return false;
}

faltung_status run(Call& c, void* options) {
  switch (c.kind) {
    case Kind::forward:
      return faltung_causal_conv1d_forward(c.pointer(x), c.pointer(weight), c.pointer(y), c.pointer(final_state),
                                           static_cast<faltung_causal_conv1d_options*>(options));
    case Kind::backward:
      return faltung_causal_conv1d_backward(c.pointer(dy), c.pointer(x), c.pointer(weight), c.pointer(dfinal),
                                            c.pointer(dx), c.pointer(dweight), c.pointer(dbias), c.pointer(dstate),
                                            c.pointer(dresidual), static_cast<faltung_causal_conv1d_options*>(options));
    default:
      return faltung_causal_conv1d_update(c.pointer(x), c.pointer(state), c.pointer(weight), c.pointer(y),
                                          static_cast<faltung_causal_conv1d_update_options*>(options));
  }
}

void expect_words(faltung_status status) {
  FUZZ_CHECK(status >= FALTUNG_OK && status <= FALTUNG_RUNTIME_ERROR, "status %d", int(status));
  ++statuses[status];
  if (status != FALTUNG_OK) FUZZ_CHECK(faltung_last_error()[0] != '\0', "a failure without words");
}

void compare(Call& c, std::vector<std::vector<double>> const& got) {
  double largest = 1, points = 1;
  for (auto const name : c.inputs())
    if (auto& a = c.arguments[name]; !a.null && a.tensor.data && is_floating(a.dtype()))
      for (double const value : a.values()) largest = std::max(largest, std::abs(value));
  for (int i = 0; i < c.arguments[x].tensor.rank; ++i) points *= double(c.arguments[x].tensor.shape[i]);
  double const size = largest * largest * (points + double(c.arguments[weight].tensor.shape[1]));
  std::size_t n = 0;
  for (auto const name : c.outputs()) {
    auto& out = c.arguments[name];
    if (out.null || !out.tensor.data) continue;
    auto const expected = out.values();
    auto const rough = std::max(std::max(out.dtype(), c.arguments[x].dtype()), c.arguments[state].dtype());
    double const epsilon = rough == FALTUNG_F64   ? 0x1p-44
                           : rough == FALTUNG_F32 ? 0x1p-18
                           : rough == FALTUNG_F16 ? 0x1p-9
                                                  : 0x1p-6;
    for (std::size_t i = 0; i < expected.size(); ++i)
      FUZZ_CHECK(got[n][i] == expected[i] || !std::isfinite(expected[i]) ||
                     std::abs(got[n][i] - expected[i]) <= epsilon * std::max(std::abs(expected[i]), size),
                 "output %d, element %zu: expected %g, got %g", int(name), i, expected[i], got[n][i]);
    ++n;
  }
}

// Whether no two elements share memory: from the smallest stride up, each steps over all that the smaller ones reach. A
// state whose columns lie in each other has no defined result, only defined behaviour.
bool elements_are_apart(faltung_tensor const& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] > 1) axes.emplace_back(std::abs(tensor.strides[i]), tensor.shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;
  for (auto const& [stride, extent] : axes) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

void execute(Bytes& in, Call& c) {
  bool const update = c.kind == Kind::update;
  auto* const bias_pointer = c.pointer(bias);
  auto* const cut_pointer = c.cut_as ? c.pointer(cut) : nullptr;
  c.options.bias = c.update_options.bias = bias_pointer;
  c.options.residual = c.kind == Kind::forward ? c.pointer(residual) : nullptr;
  c.options.initial_state = c.pointer(state);
  (c.cut_as == 1 ? c.options.cu_seqlens : c.cut_as == 2 ? c.options.seq_idx : c.options.lengths) = cut_pointer;
  c.update_options.query_start_loc = cut_pointer;
  c.update_options.state_indices = c.pointer(source);
  c.update_options.output_state_indices = c.pointer(destination);
  c.update_options.cache_seqlens = c.pointer(position);
  c.update_options.num_accepted = c.pointer(accepted);
  // Options end where their size says.
  auto const whole = update ? sizeof c.update_options : sizeof c.options;
  auto const claimed = update ? c.update_options.size : c.options.size;
  auto const aligned = (std::min(claimed, whole) + 7) / 8 * 8;  // the struct starts where its alignment wants it
  Guarded options(std::max(aligned, sizeof claimed), true);
  auto const store = [&] {
    std::memcpy(options.data(), update ? static_cast<void const*>(&c.update_options) : &c.options, options.size());
  };
  store();

  char text[300];
  std::int64_t needed = -1;
  expect_words(update ? faltung_causal_conv1d_update_explain(
                            c.pointer(x), c.pointer(state), c.pointer(weight),
                            reinterpret_cast<faltung_causal_conv1d_update_options*>(options.data()), text,
                            in.one_in(8) ? -1 : std::int64_t(sizeof text), &needed)
                      : faltung_causal_conv1d_explain(c.kind == Kind::forward ? FALTUNG_FORWARD : FALTUNG_BACKWARD,
                                                      c.pointer(x), c.pointer(weight),
                                                      reinterpret_cast<faltung_causal_conv1d_options*>(options.data()),
                                                      text, in.one_in(8) ? -1 : std::int64_t(sizeof text), &needed));
  if (heavy(c)) return;
  std::vector<std::vector<unsigned char>> before, outputs_before;
  for (auto const name : c.inputs()) before.push_back(c.arguments[name].snapshot());
  for (auto const name : c.outputs()) outputs_before.push_back(c.arguments[name].snapshot());
  auto const restore_state = c.arguments[state].snapshot();
  auto const status = run(c, options.data());
  expect_words(status);
  std::size_t n = 0;
  for (auto const name : c.inputs())
    FUZZ_CHECK(c.arguments[name].snapshot() == before[n++], "input %d was written", int(name));
  n = 0;
  for (auto const name : c.outputs()) {
    auto& out = c.arguments[name];
    FUZZ_CHECK(status == FALTUNG_OK || out.snapshot() == outputs_before[n], "a failed call wrote into output %d",
               int(name));
    FUZZ_CHECK(out.gaps_intact(), "output %d was written outside its elements", int(name));
    ++n;
  }
  if (status != FALTUNG_OK || (update && !slots_are_apart(c))) return;
  for (auto const name : c.outputs())
    if (!c.arguments[name].null && !elements_are_apart(c.arguments[name].tensor)) return;
  std::vector<std::vector<double>> got;
  for (auto const name : c.outputs())
    if (auto& out = c.arguments[name]; !out.null && out.tensor.data) got.push_back(out.values());
  for (auto const name : c.outputs())
    if (name != state) c.arguments[name].poison();
  if (update) c.arguments[state].restore(restore_state);
  c.options.implementation = c.update_options.implementation = "cpu.reference";
  store();
  FUZZ_CHECK(run(c, options.data()) == FALTUNG_OK, "the reference refused: %s", faltung_last_error());
  for (auto const name : c.inputs())
    if (!c.arguments[name].null && !c.arguments[name].finite()) return;
  compare(c, got);
}

}  // namespace
}  // namespace faltung::fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace faltung::fuzz;
  Bytes in(data, size);
  Call c;
  decode_sound(in, c);
  for (auto spoilers = in.one_in(2) ? in.below(4) : 0; spoilers-- > 0;) spoil_something(in, c);
  for (auto& a : c.arguments) a.allocate(in);
  for (auto const name : c.inputs()) c.arguments[name].fill(in);
  c.arguments[state].fill(in);
  for (auto const name : {cut, source, destination, position, accepted}) fill_index(in, c.arguments[name]);
  faltung_set_num_threads(1);
  execute(in, c);
  return 0;
}
