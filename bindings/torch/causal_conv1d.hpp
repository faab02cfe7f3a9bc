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

// A forward or backward whose inputs have been looked at: views, options and workspace, alive until it is over.
struct CausalConv1dCall {
  CausalConv1dCall(faltung_direction direction, Launch const& launch, Tensor const& x, Tensor const& weight,
                   CausalConv1dArguments const& arguments, bool content)
      : x(input_view(x, "x")),
        weight(input_view(weight, "weight")),
        tensors(arguments.views()),
        options(causal_conv1d_options(launch, tensors, arguments.activation, arguments.channels_last, content)),
        workspace(causal_conv1d_workspace(direction, x, this->x, this->weight, options)) {}
  CausalConv1dCall(CausalConv1dCall const&) = delete;  // the options point into it

  void forward(Tensor const& y, OptionalTensor const& final_state) {
    auto y_view = output_view(y, "y");
    auto final_view = output_view(final_state, "final_state");
    check(faltung_causal_conv1d_forward(&x, &weight, &y_view, pointer(final_view), &options));
  }

  faltung_tensor x, weight;
  CausalConv1dTensors tensors;
  faltung_causal_conv1d_options options;
  Workspace workspace;
};

// state_columns: of the final state; negative: none is asked for, and it comes back with shape [0].
inline std::tuple<Tensor, Tensor> causal_conv1d_forward(Launch const& launch, Tensor const& x, Tensor const& weight,
                                                        CausalConv1dArguments const& arguments, int64_t state_columns,
                                                        bool content) {
  CausalConv1dCall call(FALTUNG_FORWARD, launch, x, weight, arguments, content);
  Tensor y = fresh_like(x);
  if (state_columns < 0) {
    call.forward(y, std::nullopt);
    return {y, nothing(x)};
  }
  auto const& cu_seqlens = call.tensors.cu_seqlens;
  int64_t const channels = call.weight.shape[0], columns = std::max<int64_t>(state_columns, 1);
  int64_t const shape[] = {cu_seqlens ? cu_seqlens->shape[0] - 1 : call.x.shape[0], channels, state_columns};
  int64_t const strides[] = {std::max<int64_t>(channels, 1) * columns, columns, 1};
  Tensor final_state = empty_strided(arguments.initial_state ? *arguments.initial_state : x, 3, shape, strides);
  call.forward(y, final_state);
  return {y, final_state};
}

// The same into memory of the caller's.
inline void causal_conv1d_out(Launch const& launch, Tensor const& x, Tensor const& weight, Tensor const& y,
                              OptionalTensor const& final_state, CausalConv1dArguments const& arguments, bool content) {
  CausalConv1dCall(FALTUNG_FORWARD, launch, x, weight, arguments, content).forward(y, final_state);
}

struct CausalConv1dWanted {
  bool dx, dweight, dbias, dinitial_state, dresidual;
};

// dx_out: where dx goes; null: to a fresh tensor.
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> causal_conv1d_backward(
    Launch const& launch, Tensor const& dy, Tensor const& x, Tensor const& weight, OptionalTensor const& dfinal_state,
    CausalConv1dArguments const& arguments, CausalConv1dWanted wanted, Tensor const* dx_out = nullptr) {
  auto const dy_view = input_view(dy, "dy");
  auto dfinal_view = input_view(dfinal_state, "dfinal_state");
  if (wanted.dbias && !arguments.bias) fail(FALTUNG_INVALID_ARGUMENT, "dbias is wanted, but there is no bias");
  if (wanted.dinitial_state && !arguments.initial_state)
    fail(FALTUNG_INVALID_ARGUMENT, "dinitial_state is wanted, but there is no initial_state");
  CausalConv1dCall call(FALTUNG_BACKWARD, launch, x, weight, arguments, false);
  auto const like = [&](bool asked, Tensor const& of) { return asked ? fresh_like(of) : nothing(x); };
  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gradients = {
      dx_out ? *dx_out : like(wanted.dx, x), like(wanted.dweight, weight),
      wanted.dbias ? fresh_like(*arguments.bias) : nothing(x),
      wanted.dinitial_state ? fresh_like(*arguments.initial_state) : nothing(x), like(wanted.dresidual, x)};
  auto& [dx, dweight, dbias, dinitial_state, dresidual] = gradients;
  auto dx_view = output_view(dx, "dx"), dweight_view = output_view(dweight, "dweight"),
       dbias_view = output_view(dbias, "dbias"), dinitial_view = output_view(dinitial_state, "dinitial_state"),
       dresidual_view = output_view(dresidual, "dresidual");
  check(faltung_causal_conv1d_backward(
      &dy_view, &call.x, &call.weight, pointer(dfinal_view), wanted.dx ? &dx_view : nullptr,
      wanted.dweight ? &dweight_view : nullptr, wanted.dbias ? &dbias_view : nullptr,
      wanted.dinitial_state ? &dinitial_view : nullptr, wanted.dresidual ? &dresidual_view : nullptr, &call.options));
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
