// Validates an update once, turns its tensors into a Problem and views, and hands them to the first implementation that
// accepts.
#include "causal_conv1d/api.hpp"
#include "causal_conv1d/choice.hpp"
#include "causal_conv1d/validation.hpp"
#include "core/error.hpp"

namespace faltung::causal_conv1d {
namespace {

struct Call {
  Problem problem;
  Strides strides(Tensor const& t) const {  // of x or y
    if (packed) return {0, t.strides[1], t.strides[0]};
    if (t.rank == 2) return {t.strides[0], t.strides[1], 1};
    return strides_of(t, axes);
  }
  bool packed;
  Axes axes;
};

void check_row_index(Tensor const* t, char const* name, std::int64_t rows, Tensor const& x, Data data) {
  if (!t) return;
  check_index(*t, name, IndexTypes::int32, x, data);
  check_shape(*t, name, {rows}, "[rows]");
}

Call validate_update(Tensor const& x, Tensor const& state, Tensor const& weight, UpdateOptions const& o, Data data) {
  require(o.size >= sizeof(UpdateOptions), "options.size: expected ", sizeof(UpdateOptions),
          " (use faltung_causal_conv1d_update_options_default), got ", o.size);
  check_layout(o.layout, o.activation);
  require(o.window == FALTUNG_TRAILING || o.window == FALTUNG_LEADING || o.window == FALTUNG_RING,
          "window: expected a value of faltung_window, got ", int(o.window));
  check_floating(x, "x", data);
  Call call{.problem = {}, .packed = o.query_start_loc != nullptr, .axes = {o.layout == FALTUNG_CHANNELS_LAST}};
  auto& p = call.problem;
  if (call.packed) {
    require(x.rank == 2, "x must be [total tokens, channels] with query_start_loc, got shape ", shape_text(x));
    check_index(*o.query_start_loc, "query_start_loc", IndexTypes::int32, x, data);
    require(o.query_start_loc->rank == 1 && o.query_start_loc->shape[0] >= 1,
            "query_start_loc: expected shape [rows + 1], got ", shape_text(*o.query_start_loc));
  } else {
    require(x.rank == 2 || x.rank == 3, "x must be [rows, channels] or ",
            call.axes.last ? "[rows, time, channels]" : "[rows, channels, time]", ", got shape ", shape_text(x));
  }
  auto const channels = x.shape[x.rank == 2 ? 1 : call.axes.channel()];
  check_weight(weight, x, channels, "weight", data);
  if (o.bias) check_vector(*o.bias, "bias", x, channels, data);
  auto const strides = call.strides(x);
  p = {.direction = Direction::update,
       .batch = call.packed ? 1 : x.shape[0],
       .channels = channels,
       .time = call.packed   ? x.shape[0]
               : x.rank == 2 ? 1
                             : x.shape[call.axes.time()],
       .sequences = call.packed ? o.query_start_loc->shape[0] - 1 : x.shape[0],
       .width = int(weight.shape[1]),
       .activation = Activation(int(o.activation)),
       .cut = call.packed ? Sequences::packed : Sequences::whole,
       .window = Window(int(o.window)),
       .x_dtype = x.dtype,
       .weight_dtype = weight.dtype,
       .bias_dtype = o.bias ? o.bias->dtype : x.dtype,
       .state_dtype = state.dtype,
       .final_state_dtype = state.dtype,
       .index_dtype = FALTUNG_I32,
       .device = x.device,
       .unit_stride = UnitStride::none};
  p.unit_stride = unit_stride(p.time, strides.channel, strides.time);
  check_floating(state, "state", data);
  check_same_device(state, "state", x, "x");
  check_writable(state, "state");
  require(state.rank == 3 && state.shape[1] == channels && state.shape[2] >= p.width - 1,
          "state: expected [slots, channels, at least width - 1] = [slots, ", channels, ", at least ", p.width - 1,
          "], got ", shape_text(state));
  require(o.state_indices || state.shape[0] == p.sequences, "state has ", state.shape[0], " slots, x has ", p.sequences,
          " rows: without state_indices they must be equal");
  check_row_index(o.state_indices, "state_indices", p.sequences, x, data);
  check_row_index(o.output_state_indices, "output_state_indices", p.sequences, x, data);
  check_row_index(o.cache_seqlens, "cache_seqlens", p.sequences, x, data);
  check_row_index(o.num_accepted, "num_accepted", p.sequences, x, data);
  require(!o.cache_seqlens || p.window == Window::ring, "cache_seqlens: expected window = ring with it, got ",
          p.window == Window::trailing ? "trailing" : "leading");
  require(o.cache_seqlens || p.window != Window::ring, "window = ring: expected cache_seqlens, got NULL");
  require(!o.num_accepted || p.window == Window::leading, "num_accepted: expected window = leading with it, got ",
          p.window == Window::trailing ? "trailing" : "ring");
  // Rows of a packed x have their own lengths, which the host does not know. An empty x may have any time.
  std::int64_t needed;
  if (__builtin_add_overflow(p.time, p.width - 2, &needed)) needed = INT64_MAX;
  require(!o.num_accepted || call.packed || state.shape[2] >= needed,
          "state: num_accepted needs at least width - 2 + time = ", needed, " columns, got ", state.shape[2]);
  return call;
}

}  // namespace

void update(Tensor const& x, Tensor& state, Tensor const& weight, Tensor& y, UpdateOptions const& o) {
  auto const call = validate_update(x, state, weight, o, Data::read);
  check_like(y, "y", x, "x", Data::read);
  check_writable(y, "y");
  auto const& p = call.problem;
  auto const& chosen = choose(p, o.implementation);
  require(chosen.workspace(p) == 0, chosen.name, " needs workspace for an update, which must do without");
  if (p.channels == 0) return;
  chosen.update(p, {.x = {x.data, call.strides(x)},
                    .weight = weight_of(weight),
                    .bias = vector_of(o.bias),
                    .state = state_of(&state),
                    .slots = state.shape[0],
                    .source = index_of(o.state_indices),
                    .destination = index_of(o.output_state_indices),
                    .position = index_of(o.cache_seqlens),
                    .accepted = index_of(o.num_accepted),
                    .cut = index_of(o.query_start_loc),
                    .y = {y.data, call.strides(y)},
                    .runtime = {.parallel = {o.parallel_for, o.parallel_context},
                                .stream = o.stream,
                                .device_index = x.device_index,
                                .check = o.check != 0}});
}

std::string explain_update(Tensor const& x, Tensor const& state, Tensor const& weight, UpdateOptions const& o) {
  return explain(validate_update(x, state, weight, o, Data::unread).problem, o.implementation);
}

}  // namespace faltung::causal_conv1d
