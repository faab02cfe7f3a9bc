// Validates a forward or a backward once, turns its tensors into a Problem and views, and hands them to the first
// implementation that accepts.
#include "causal_conv1d/api.hpp"

#include "causal_conv1d/choice.hpp"
#include "causal_conv1d/validation.hpp"
#include "core/error.hpp"

namespace faltung::causal_conv1d {
namespace {

Axes axes_of(Options const& options) { return {options.layout == FALTUNG_CHANNELS_LAST}; }

Runtime make_runtime(Problem const& p, Implementation const& chosen, Tensor const& x, Options const& options) {
  auto const needed = chosen.workspace(p);
  require(needed <= options.workspace_size && (needed == 0 || options.workspace), "workspace: ", chosen.name, " needs ",
          needed, " bytes, got ", options.workspace ? options.workspace_size : 0);
  return {.parallel = {options.parallel_for, options.parallel_context},
          .stream = options.stream,
          .device_index = x.device_index,
          .workspace = options.workspace,
          .check = options.check != 0};
}

ForwardArgs forward_args(Axes axes, Tensor const& x, Tensor const& weight, Tensor& y, Tensor* final_state,
                         Options const& options, Runtime const& runtime) {
  return {.x = {x.data, strides_of(x, axes)},
          .weight = weight_of(weight),
          .bias = vector_of(options.bias),
          .residual =
              options.residual ? ConstView{options.residual->data, strides_of(*options.residual, axes)} : ConstView{},
          .initial_state = state_of(options.initial_state),
          .cut = cut_of(options),
          .y = {y.data, strides_of(y, axes)},
          .final_state = state_of(final_state),
          .runtime = runtime};
}

Problem validate_forward(Tensor const& x, Tensor const& weight, Tensor const& y, Tensor const* final_state,
                         Options const& options, Data data) {
  auto p = validate(Direction::forward, x, weight, options, data, data, data);
  check_like(y, "y", x, "x", data);
  check_writable(y, "y");
  if (final_state) {
    check_state(*final_state, "final_state", p, x, data);
    check_writable(*final_state, "final_state");
    p.final_state_dtype = final_state->dtype;
  }
  return p;
}

void check_gradient(Tensor const& gradient, char const* name, Tensor const& of, char const* of_name) {
  check_like(gradient, name, of, of_name, Data::read);
  check_writable(gradient, name);
}

Direction direction_of(faltung_direction direction) {
  require(direction == FALTUNG_FORWARD || direction == FALTUNG_BACKWARD,
          "direction: expected a value of faltung_direction, got ", int(direction));
  return direction == FALTUNG_FORWARD ? Direction::forward : Direction::backward;
}

}  // namespace

void forward(Tensor const& x, Tensor const& weight, Tensor& y, Tensor* final_state, Options const& options) {
  auto const p = validate_forward(x, weight, y, final_state, options, Data::read);
  auto const& chosen = choose(p, options.implementation);
  if (p.channels == 0) return;
  chosen.forward(
      p, forward_args(axes_of(options), x, weight, y, final_state, options, make_runtime(p, chosen, x, options)));
}

Prepared prepare(Tensor const& x, Tensor const& weight, Tensor const& y, Tensor const* final_state,
                 Options const& options) {
  auto const p = validate_forward(x, weight, y, final_state, options, Data::unread);
  return {p, &choose(p, options.implementation), options.layout == FALTUNG_CHANNELS_LAST};
}

void launch(Prepared const& prepared, Tensor const& x, Tensor const& weight, Tensor& y, Tensor* final_state,
            Options const& options) {
  Axes const axes{prepared.channels_last};
  auto p = prepared.problem;
  p.batch = x.shape[0];
  p.time = x.shape[axes.time()];
  p.sequences = options.cu_seqlens ? options.cu_seqlens->shape[0] - 1 : p.batch;
  p.unit_stride = unit_stride(p.time, x.strides[axes.channel()], x.strides[axes.time()]);
  Runtime const runtime{.parallel = {options.parallel_for, options.parallel_context},
                        .stream = options.stream,
                        .device_index = x.device_index,
                        .workspace = options.workspace,
                        .check = options.check != 0};
  prepared.chosen->forward(p, forward_args(axes, x, weight, y, final_state, options, runtime));
}

void backward(Tensor const& dy, Tensor const& x, Tensor const& weight, Tensor const* dfinal_state,
              Gradients const& gradients, Options const& options) {
  auto const& [dx, dweight, dbias, dinitial_state, dresidual] = gradients;
  bool const through = dx || dinitial_state, silu = options.activation == FALTUNG_ACTIVATION_SILU;
  bool const any_dz = through || dweight || dbias;
  auto p = validate(Direction::backward, x, weight, options, dweight || (silu && any_dz) ? Data::read : Data::unread,
                    through || (silu && any_dz) ? Data::read : Data::unread, Data::read);
  check_like(dy, "dy", x, "x", Data::read);
  if (dfinal_state) {
    check_state(*dfinal_state, "dfinal_state", p, x, Data::read);
    p.final_state_dtype = dfinal_state->dtype;
  }
  if (dx) check_gradient(*dx, "dx", x, "x");
  if (dresidual) check_gradient(*dresidual, "dresidual", x, "x");
  if (dweight) check_gradient(*dweight, "dweight", weight, "weight");
  if (dbias) {
    check_vector(*dbias, "dbias", x, p.channels, Data::read);
    check_writable(*dbias, "dbias");
    if (options.bias)
      require_type(dbias->dtype == p.bias_dtype, "dbias is ", name_of(dbias->dtype), ", bias is ",
                   name_of(p.bias_dtype));
    p.bias_dtype = dbias->dtype;
  }
  if (dinitial_state) {
    require(options.initial_state != nullptr, "dinitial_state: expected an initial_state in the options, got NULL");
    check_gradient(*dinitial_state, "dinitial_state", *options.initial_state, "initial_state");
  }
  auto const& chosen = choose(p, options.implementation);
  if (p.channels == 0) return;
  auto const axes = axes_of(options);
  auto const view = [&](Tensor* t) { return t ? View{t->data, strides_of(*t, axes)} : View{}; };
  chosen.backward(p, {.dy = {dy.data, strides_of(dy, axes)},
                      .x = {x.data, strides_of(x, axes)},
                      .weight = weight_of(weight),
                      .bias = vector_of(options.bias),
                      .initial_state = state_of(options.initial_state),
                      .dfinal_state = state_of(dfinal_state),
                      .cut = cut_of(options),
                      .dx = view(dx),
                      .dresidual = view(dresidual),
                      .dweight = dweight ? Weight{dweight->data, dweight->strides[0], dweight->strides[1]} : Weight{},
                      .dbias = dbias ? Bias{dbias->data, dbias->strides[0]} : Bias{},
                      .dinitial_state = state_of(dinitial_state),
                      .runtime = make_runtime(p, chosen, x, options)});
}

std::size_t workspace(faltung_direction direction, Tensor const& x, Tensor const& weight, Options const& options) {
  auto const p = validate(direction_of(direction), x, weight, options, Data::unread, Data::unread, Data::unread);
  return choose(p, options.implementation).workspace(p);
}

std::string explain(faltung_direction direction, Tensor const& x, Tensor const& weight, Options const& options) {
  return explain(validate(direction_of(direction), x, weight, options, Data::unread, Data::unread, Data::unread),
                 options.implementation);
}

}  // namespace faltung::causal_conv1d
