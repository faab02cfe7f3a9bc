// Decodes bytes into a forward, backward or update of causal_conv1d through the C ABI, sound or spoiled, index tensors
// out of order included, and asks: no crash, no access outside the tensors, inputs unchanged, words for each failure
// and nothing written by it.
#include "support.hpp"

namespace faltung::fuzz {
namespace {

enum class Entry { forward, backward, update };

struct Call {
  Entry entry;
  std::int64_t tokens;
  // What a call may have; null: not given. `state` serves as initial_state, or is advanced by the update.
  Argument x, weight, bias, residual, state, cu_seqlens, seq_idx, lengths, y, final_state, dy, dfinal_state;
  Argument dx, dweight, dbias, dstate, dresidual, state_indices, output_indices, cache_seqlens, accepted, query_start;
  faltung_causal_conv1d_options options;
  faltung_causal_conv1d_update_options update;

  std::vector<Argument*> indices() {
    return {&cu_seqlens, &seq_idx, &lengths, &state_indices, &output_indices, &cache_seqlens, &accepted, &query_start};
  }
  std::vector<Argument*> inputs() {
    std::vector<Argument*> result{&x, &weight, &bias, &residual, &dy, &dfinal_state};
    if (entry != Entry::update) result.push_back(&state);
    return result;
  }
  std::vector<Argument*> outputs() {
    if (entry == Entry::forward) return {&y, &final_state};
    if (entry == Entry::backward) return {&dx, &dweight, &dbias, &dstate, &dresidual};
    return {&y, &state};
  }
  std::vector<Argument*> all() {
    auto result = indices();
    for (Argument* a : {&x, &weight, &bias, &residual, &state, &y, &final_state, &dy, &dfinal_state, &dx, &dweight,
                        &dbias, &dstate, &dresidual})
      result.push_back(a);
    return result;
  }
};

void shape(Argument& a, Dtype dtype, std::vector<std::int64_t> const& extents) {
  a.tensor.dtype = dtype;
  a.tensor.rank = std::int32_t(extents.size());
  std::copy(extents.begin(), extents.end(), a.tensor.shape);
}

void decode(Bytes& in, Call& call) {
  constexpr Dtype dtypes[] = {FALTUNG_F64, FALTUNG_F32, FALTUNG_F16, FALTUNG_BF16};
  call.entry = Entry(in.below(3));
  faltung_causal_conv1d_options_default(&call.options);
  faltung_causal_conv1d_update_options_default(&call.update);
  bool const last = in.one_in(2);
  auto const batch = in.below(4), channels = in.one_in(4) ? in.below(40) : in.below(5),
             width = 1 + in.below(in.one_in(5) ? 20 : 5);
  call.tokens = in.one_in(4) ? in.below(90) : in.below(9);
  auto const packed = in.below(4);  // none, cu_seqlens, seq_idx, lengths
  auto const rows = packed == 1 && call.entry != Entry::update ? 1 : batch,
             sequences = packed == 1 && call.entry != Entry::update ? in.below(5) : rows;
  auto const x_dtype = dtypes[in.below(4)], weight_dtype = in.one_in(3) ? dtypes[in.below(4)] : x_dtype;
  auto const state_dtype = in.one_in(3) ? dtypes[in.below(4)] : x_dtype;
  auto const columns = call.entry == Entry::update ? width - 1 + in.below(6) : width - 1 + in.below(2);
  auto const integer = in.one_in(2) ? FALTUNG_I32 : FALTUNG_I64;
  call.options.layout = call.update.layout = last ? FALTUNG_CHANNELS_LAST : FALTUNG_CHANNELS_FIRST;
  call.options.activation = call.update.activation = faltung_activation(in.below(2));
  call.options.check = call.update.check = in.one_in(3);
  call.update.window = faltung_window(in.below(3));

  std::vector<std::int64_t> x_shape =
      last ? std::vector{rows, call.tokens, channels} : std::vector{rows, channels, call.tokens};
  bool const single = call.entry == Entry::update && in.one_in(3), ragged = single && in.one_in(2);
  if (single) x_shape = {ragged ? call.tokens : rows, channels};
  auto const slots = in.one_in(2) ? rows : in.below(6);
  for (Argument* a : {&call.x, &call.residual, &call.y, &call.dy, &call.dx, &call.dresidual})
    shape(*a, x_dtype, x_shape);
  for (Argument* a : {&call.weight, &call.dweight}) shape(*a, weight_dtype, {channels, width});
  for (Argument* a : {&call.bias, &call.dbias}) shape(*a, weight_dtype, {channels});
  for (Argument* a : {&call.state, &call.final_state, &call.dstate, &call.dfinal_state})
    shape(*a, state_dtype, {call.entry == Entry::update ? slots : sequences, channels, columns});
  shape(call.cu_seqlens, integer, {sequences + 1});
  shape(call.seq_idx, FALTUNG_I32, {rows, call.tokens});
  shape(call.lengths, integer, {rows});
  for (Argument* a : {&call.state_indices, &call.output_indices, &call.cache_seqlens, &call.accepted})
    shape(*a, FALTUNG_I32, {rows});
  shape(call.query_start, FALTUNG_I32, {rows + 1});

  for (Argument* a :
       {&call.bias, &call.residual, &call.state, &call.final_state, &call.dfinal_state, &call.dx, &call.dweight,
        &call.dbias, &call.dstate, &call.dresidual, &call.state_indices, &call.output_indices})
    a->null = in.one_in(3);
  if (call.entry == Entry::update) call.state.null = false;
  call.cu_seqlens.null = packed != 1;
  call.seq_idx.null = packed != 2;
  call.lengths.null = packed != 3;
  call.cache_seqlens.null = call.update.window != FALTUNG_RING;
  call.accepted.null = call.update.window != FALTUNG_LEADING || in.one_in(2);
  call.query_start.null = !ragged;
  for (Argument* a : call.all()) a->choose_strides(in, false);
  for (Argument* a : call.inputs())
    if (in.one_in(4)) a->choose_strides(in, true);
}

void spoil_something(Bytes& in, Call& call) {
  auto const all = call.all();
  auto& a = *all[std::size_t(in.below(std::int64_t(all.size())))];
  auto const axis = in.below(3);
  switch (in.below(9)) {
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
      spoil(in, in.one_in(2) ? static_cast<void*>(&call.options.layout) : &call.options.activation);
      break;
    case 7:
      spoil(in, in.one_in(2) ? static_cast<void*>(&call.update.window) : &call.update.layout);
      break;
    default:
      call.options.size = call.update.size = std::size_t(in.wild());
  }
}

bool heavy(Call const& call) {
  double work = 1;
  for (Tensor const* t : {&call.x.tensor, &call.weight.tensor})
    for (int i = 0; i < t->rank && i < FALTUNG_MAX_RANK; ++i) work *= double(std::max<std::int64_t>(t->shape[i], 1));
  return work > 4e6;
}

void expect_words(faltung_status status) {
  FUZZ_CHECK(status >= FALTUNG_OK && status <= FALTUNG_RUNTIME_ERROR, "status %d", int(status));
  ++statuses[status];
  if (status != FALTUNG_OK) FUZZ_CHECK(faltung_last_error()[0] != '\0', "a failure without words");
}

// The options where only as many bytes as their size says can be read.
template <typename Options>
class StoredOptions {
 public:
  explicit StoredOptions(Options const& options)
      : memory_(std::max(std::min(options.size, sizeof options), sizeof options.size), true, alignof(Options)) {
    store(options);
  }
  void store(Options const& options) { std::memcpy(memory_.data(), &options, memory_.size()); }
  Options const* get() const { return reinterpret_cast<Options const*>(memory_.data()); }

 private:
  Guarded memory_;
};

faltung_status run(Bytes& in, Call& call) {
  if (call.entry == Entry::update) {
    call.update.bias = call.bias.pointer();
    call.update.state_indices = call.state_indices.pointer();
    call.update.output_state_indices = call.output_indices.pointer();
    call.update.cache_seqlens = call.cache_seqlens.pointer();
    call.update.num_accepted = call.accepted.pointer();
    call.update.query_start_loc = call.query_start.pointer();
    StoredOptions const options(call.update);
    return faltung_causal_conv1d_update(call.x.pointer(), call.state.pointer(), call.weight.pointer(), call.y.pointer(),
                                        options.get());
  }
  call.options.bias = call.bias.pointer();
  call.options.residual = call.residual.pointer();
  call.options.initial_state = call.state.pointer();
  call.options.cu_seqlens = call.cu_seqlens.pointer();
  call.options.seq_idx = call.seq_idx.pointer();
  call.options.lengths = call.lengths.pointer();
  StoredOptions options(call.options);
  std::size_t bytes = 0;
  expect_words(faltung_causal_conv1d_workspace(call.entry == Entry::forward ? FALTUNG_FORWARD : FALTUNG_BACKWARD,
                                               call.x.pointer(), call.weight.pointer(), options.get(), &bytes));
  std::unique_ptr<Guarded> workspace;
  if (bytes && bytes < (1u << 26) && !in.one_in(16)) {
    workspace = std::make_unique<Guarded>((bytes + 255) / 256 * 256, true);
    call.options.workspace = workspace->data();
    call.options.workspace_size = bytes;
    options.store(call.options);
  }
  if (call.entry == Entry::forward)
    return faltung_causal_conv1d_forward(call.x.pointer(), call.weight.pointer(), call.y.pointer(),
                                         call.final_state.pointer(), options.get());
  return faltung_causal_conv1d_backward(
      call.dy.pointer(), call.x.pointer(), call.weight.pointer(), call.dfinal_state.pointer(), call.dx.pointer(),
      call.dweight.pointer(), call.dbias.pointer(), call.dstate.pointer(), call.dresidual.pointer(), options.get());
}

}  // namespace
}  // namespace faltung::fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace faltung::fuzz;
  Bytes in(data, size);
  Call call;
  decode(in, call);
  for (auto spoilers = in.one_in(2) ? in.below(3) : 0; spoilers-- > 0;) spoil_something(in, call);
  for (Argument* a : call.all()) a->allocate(in);
  if (heavy(call)) return 0;
  for (Argument* a : call.inputs()) a->fill(in);
  if (call.entry == Entry::update) call.state.fill(in);
  for (Argument* a : call.indices()) a->fill_indices(in, call.tokens);
  faltung_set_num_threads(1);

  std::vector<std::vector<unsigned char>> before, outputs_before;
  auto unchanged = call.inputs();
  for (Argument* a : call.indices()) unchanged.push_back(a);
  for (Argument* a : unchanged) before.push_back(a->snapshot());
  for (Argument* a : call.outputs()) outputs_before.push_back(a->snapshot());
  auto const status = run(in, call);
  expect_words(status);
  for (std::size_t n = 0; n < unchanged.size(); ++n)
    FUZZ_CHECK(unchanged[n]->snapshot() == before[n], "input %zu was written", n);
  std::size_t n = 0;
  for (Argument* a : call.outputs()) {
    FUZZ_CHECK((status == FALTUNG_OK && !a->null) || a->snapshot() == outputs_before[n],
               "output %zu was written by a failed call or unasked", n);
    FUZZ_CHECK(a->null || status != FALTUNG_OK || a->gaps_intact(), "output %zu was written outside its elements", n);
    ++n;
  }
  return 0;
}
