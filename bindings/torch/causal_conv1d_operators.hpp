// The causal_conv1d operators as torch sees them: the arguments of the schemas in causal_conv1d.cpp, handed to the
// bodies of causal_conv1d.hpp. A device is a type that is made of x and converts to Launch.
#pragma once
#include "causal_conv1d.hpp"

namespace faltung::torch_binding {

template <typename DeviceLaunch>
struct CausalConv1dOperators {
  static std::tuple<Tensor, Tensor> forward(Tensor const& x, Tensor const& weight, OptionalTensor const& bias,
                                            OptionalTensor const& residual, OptionalTensor const& initial_state,
                                            OptionalTensor const& cu_seqlens, OptionalTensor const& seq_idx,
                                            OptionalTensor const& lengths, int64_t activation, int64_t state_columns,
                                            bool channels_last, bool check) {
    return causal_conv1d_forward(
        DeviceLaunch(x), x, weight,
        {bias, residual, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last}, state_columns, check);
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward(
      Tensor const& dy, Tensor const& x, Tensor const& weight, OptionalTensor const& bias,
      OptionalTensor const& initial_state, OptionalTensor const& dfinal_state, OptionalTensor const& cu_seqlens,
      OptionalTensor const& seq_idx, OptionalTensor const& lengths, int64_t activation, bool channels_last,
      bool need_dx, bool need_dweight, bool need_dbias, bool need_dinitial_state, bool need_dresidual) {
    OptionalTensor const none;
    return causal_conv1d_backward(DeviceLaunch(x), dy, x, weight, dfinal_state,
                                  {bias, none, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last},
                                  {need_dx, need_dweight, need_dbias, need_dinitial_state, need_dresidual});
  }

  static void forward_out(Tensor const& x, Tensor const& weight, Tensor const& y, OptionalTensor const& final_state,
                          OptionalTensor const& bias, OptionalTensor const& residual,
                          OptionalTensor const& initial_state, OptionalTensor const& cu_seqlens,
                          OptionalTensor const& seq_idx, OptionalTensor const& lengths, int64_t activation,
                          bool channels_last, bool check) {
    causal_conv1d_out(DeviceLaunch(x), x, weight, y, final_state,
                      {bias, residual, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last}, check);
  }

  static std::tuple<Tensor, Tensor, Tensor> backward_out(
      Tensor const& dy, Tensor const& x, Tensor const& weight, Tensor const& dx, OptionalTensor const& bias,
      OptionalTensor const& initial_state, OptionalTensor const& dfinal_state, OptionalTensor const& cu_seqlens,
      OptionalTensor const& seq_idx, OptionalTensor const& lengths, int64_t activation, bool channels_last,
      bool need_dweight, bool need_dbias, bool need_dinitial_state) {
    OptionalTensor const none;
    auto gradients =
        causal_conv1d_backward(DeviceLaunch(x), dy, x, weight, dfinal_state,
                               {bias, none, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last},
                               {true, need_dweight, need_dbias, need_dinitial_state, false}, &dx);
    return {std::get<1>(gradients), std::get<2>(gradients), std::get<3>(gradients)};
  }

  static Tensor update(Tensor const& x, Tensor const& state, Tensor const& weight, OptionalTensor const& bias,
                       OptionalTensor const& state_indices, OptionalTensor const& output_state_indices,
                       OptionalTensor const& cache_seqlens, OptionalTensor const& num_accepted,
                       OptionalTensor const& query_start_loc, int64_t activation, int64_t window, bool channels_last) {
    return causal_conv1d_update(DeviceLaunch(x), x, state, weight,
                                {bias, state_indices, output_state_indices, cache_seqlens, num_accepted,
                                 query_start_loc, activation, window, channels_last});
  }

  template <typename TorchLibrary>
  static void implement(TorchLibrary& m) {
    m.impl("causal_conv1d", TORCH_BOX(&forward));
    m.impl("causal_conv1d_detached", TORCH_BOX(&forward));
    m.impl("causal_conv1d_backward", TORCH_BOX(&backward));
    m.impl("causal_conv1d_backward_detached", TORCH_BOX(&backward));
    m.impl("causal_conv1d_out", TORCH_BOX(&forward_out));
    m.impl("causal_conv1d_backward_out", TORCH_BOX(&backward_out));
    m.impl("causal_conv1d_update", TORCH_BOX(&update));
  }
};

}  // namespace faltung::torch_binding
