// The bodies of the causal_conv1d operators, for any device: views, fresh outputs, workspace, one C call. What differs
// between devices comes in by `Launch`. The schemas stand in causal_conv1d.cpp.
#pragma once
#include <tuple>

#include "launch.hpp"
#include "tensor.hpp"

namespace faltung::torch_binding {

// The optional tensors of a call, alive as long as the options point at them.
struct CausalConv1dTensors {
  std::optional<faltung_tensor> bias, residual, initial_state, cu_seqlens, seq_idx, lengths;
};

inline faltung_causal_conv1d_options causal_conv1d_options(Launch const& launch, CausalConv1dTensors& tensors,
                                                           int64_t activation, bool channels_last, bool check) {
  faltung_causal_conv1d_options options;
  faltung_causal_conv1d_options_default(&options);
  options.layout = channels_last ? FALTUNG_CHANNELS_LAST : FALTUNG_CHANNELS_FIRST;
  options.activation = faltung_activation(activation);
  options.bias = pointer(tensors.bias);
  options.residual = pointer(tensors.residual);
  options.initial_state = pointer(tensors.initial_state);
  options.cu_seqlens = pointer(tensors.cu_seqlens);
  options.seq_idx = pointer(tensors.seq_idx);
  options.lengths = pointer(tensors.lengths);
  options.check = check;
  options.parallel_for = launch.parallel_for;
  options.stream = launch.stream;
  return options;
}

inline Workspace causal_conv1d_workspace(faltung_direction direction, Tensor const& like, faltung_tensor const& x,
                                         faltung_tensor const& weight, faltung_causal_conv1d_options& options) {
  check(faltung_causal_conv1d_workspace(direction, &x, &weight, &options, &options.workspace_size));
  Workspace workspace(like, options.workspace_size);
  options.workspace = workspace.data();
  return workspace;
}

// The arguments of both directions, in the order of the schema.
struct CausalConv1dArguments {
  OptionalTensor const &bias, &residual, &initial_state, &cu_seqlens, &seq_idx, &lengths;
  int64_t activation;
  bool channels_last;

  CausalConv1dTensors views() const {
    return {input_view(bias, "bias"),
            input_view(residual, "residual"),
            input_view(initial_state, "initial_state"),
            input_view(cu_seqlens, "cu_seqlens"),
            input_view(seq_idx, "seq_idx"),
            input_view(lengths, "lengths")};
  }
};

// state_columns: of the final state; negative: none is asked for, and it comes back with shape [0].
inline std::tuple<Tensor, Tensor> causal_conv1d_forward(Launch const& launch, Tensor const& x, Tensor const& weight,
                                                        CausalConv1dArguments const& arguments, int64_t state_columns,
                                                        bool content) {
  auto const x_view = input_view(x, "x"), weight_view = input_view(weight, "weight");
  auto tensors = arguments.views();
  auto options = causal_conv1d_options(launch, tensors, arguments.activation, arguments.channels_last, content);
  auto const workspace = causal_conv1d_workspace(FALTUNG_FORWARD, x, x_view, weight_view, options);
  bool const with_state = state_columns >= 0;
  Tensor y = fresh_like(x), final_state = [&] {
    if (!with_state) return nothing(x);
    int64_t const sequences = tensors.cu_seqlens ? tensors.cu_seqlens->shape[0] - 1 : x_view.shape[0];
    int64_t const channels = weight_view.shape[0];
    int64_t const shape[] = {sequences, channels, state_columns};
    int64_t const columns = std::max<int64_t>(state_columns, 1);
    int64_t const strides[] = {std::max<int64_t>(channels, 1) * columns, columns, 1};
    return empty_strided(arguments.initial_state ? *arguments.initial_state : x, 3, shape, strides);
  }();
  auto y_view = output_view(y, "y"), final_view = output_view(final_state, "final_state");
  check(faltung_causal_conv1d_forward(&x_view, &weight_view, &y_view, with_state ? &final_view : nullptr, &options));
  return {y, final_state};
}

struct CausalConv1dWanted {
  bool dx, dweight, dbias, dinitial_state, dresidual;
};

inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> causal_conv1d_backward(Launch const& launch, Tensor const& dy,
                                                                                 Tensor const& x, Tensor const& weight,
                                                                                 OptionalTensor const& dfinal_state,
                                                                                 CausalConv1dArguments const& arguments,
                                                                                 CausalConv1dWanted wanted) {
  auto const dy_view = input_view(dy, "dy"), x_view = input_view(x, "x"), weight_view = input_view(weight, "weight");
  auto dfinal_view = input_view(dfinal_state, "dfinal_state");
  auto tensors = arguments.views();
  if (wanted.dbias && !arguments.bias) fail(FALTUNG_INVALID_ARGUMENT, "dbias is wanted, but there is no bias");
  if (wanted.dinitial_state && !arguments.initial_state)
    fail(FALTUNG_INVALID_ARGUMENT, "dinitial_state is wanted, but there is no initial_state");
  auto options = causal_conv1d_options(launch, tensors, arguments.activation, arguments.channels_last, false);
  auto const workspace = causal_conv1d_workspace(FALTUNG_BACKWARD, x, x_view, weight_view, options);
  auto const like = [&](bool asked, Tensor const& of) { return asked ? fresh_like(of) : nothing(x); };
  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gradients = {
      like(wanted.dx, x), like(wanted.dweight, weight), wanted.dbias ? fresh_like(*arguments.bias) : nothing(x),
      wanted.dinitial_state ? fresh_like(*arguments.initial_state) : nothing(x), like(wanted.dresidual, x)};
  auto& [dx, dweight, dbias, dinitial_state, dresidual] = gradients;
  auto dx_view = output_view(dx, "dx"), dweight_view = output_view(dweight, "dweight"),
       dbias_view = output_view(dbias, "dbias"), dinitial_view = output_view(dinitial_state, "dinitial_state"),
       dresidual_view = output_view(dresidual, "dresidual");
  check(faltung_causal_conv1d_backward(
      &dy_view, &x_view, &weight_view, pointer(dfinal_view), wanted.dx ? &dx_view : nullptr,
      wanted.dweight ? &dweight_view : nullptr, wanted.dbias ? &dbias_view : nullptr,
      wanted.dinitial_state ? &dinitial_view : nullptr, wanted.dresidual ? &dresidual_view : nullptr, &options));
  return gradients;
}

struct CausalConv1dUpdateArguments {
  OptionalTensor const &bias, &state_indices, &output_state_indices, &cache_seqlens, &num_accepted, &query_start_loc;
  int64_t activation, window;
  bool channels_last;
};

inline Tensor causal_conv1d_update(Launch const& launch, Tensor const& x, Tensor const& state, Tensor const& weight,
                                   CausalConv1dUpdateArguments const& arguments) {
  auto const x_view = input_view(x, "x"), weight_view = input_view(weight, "weight");
  auto state_view = output_view(state, "state");
  auto bias = input_view(arguments.bias, "bias"), state_indices = input_view(arguments.state_indices, "state_indices"),
       output_state_indices = input_view(arguments.output_state_indices, "output_state_indices"),
       cache_seqlens = input_view(arguments.cache_seqlens, "cache_seqlens"),
       num_accepted = input_view(arguments.num_accepted, "num_accepted"),
       query_start_loc = input_view(arguments.query_start_loc, "query_start_loc");
  faltung_causal_conv1d_update_options options;
  faltung_causal_conv1d_update_options_default(&options);
  options.layout = arguments.channels_last ? FALTUNG_CHANNELS_LAST : FALTUNG_CHANNELS_FIRST;
  options.activation = faltung_activation(arguments.activation);
  options.window = faltung_window(arguments.window);
  options.bias = pointer(bias);
  options.state_indices = pointer(state_indices);
  options.output_state_indices = pointer(output_state_indices);
  options.cache_seqlens = pointer(cache_seqlens);
  options.num_accepted = pointer(num_accepted);
  options.query_start_loc = pointer(query_start_loc);
  options.parallel_for = launch.parallel_for;
  options.stream = launch.stream;
  Tensor y = fresh_like(x);
  auto y_view = output_view(y, "y");
  check(faltung_causal_conv1d_update(&x_view, &state_view, &weight_view, &y_view, &options));
  return y;
}

}  // namespace faltung::torch_binding
