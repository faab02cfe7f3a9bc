// torch.ops.faltung.causal_conv1d, its backward and its update: schemas, and the implementations for CPU tensors.
// activation: faltung_activation. state_columns: of the final state, -1 where none is wanted. window: faltung_window.
// What is not wanted comes back with shape [0]. Forward and backward exist twice, for the reason told in long_conv.cpp,
// and once more with outputs that the caller brings (..._out), for drop-in modules; these and the update have no
// gradients.
#include "causal_conv1d.hpp"

#include "parallel.hpp"

namespace {

using namespace faltung::torch_binding;

Launch const cpu{.parallel_for = torch_threads};

std::tuple<Tensor, Tensor> forward(Tensor const& x, Tensor const& weight, OptionalTensor const& bias,
                                   OptionalTensor const& residual, OptionalTensor const& initial_state,
                                   OptionalTensor const& cu_seqlens, OptionalTensor const& seq_idx,
                                   OptionalTensor const& lengths, int64_t activation, int64_t state_columns,
                                   bool channels_last, bool check) {
  return causal_conv1d_forward(cpu, x, weight,
                               {bias, residual, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last},
                               state_columns, check);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward(
    Tensor const& dy, Tensor const& x, Tensor const& weight, OptionalTensor const& bias,
    OptionalTensor const& initial_state, OptionalTensor const& dfinal_state, OptionalTensor const& cu_seqlens,
    OptionalTensor const& seq_idx, OptionalTensor const& lengths, int64_t activation, bool channels_last, bool need_dx,
    bool need_dweight, bool need_dbias, bool need_dinitial_state, bool need_dresidual) {
  OptionalTensor const none;
  return causal_conv1d_backward(cpu, dy, x, weight, dfinal_state,
                                {bias, none, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last},
                                {need_dx, need_dweight, need_dbias, need_dinitial_state, need_dresidual});
}

void forward_out(Tensor const& x, Tensor const& weight, Tensor const& y, OptionalTensor const& final_state,
                 OptionalTensor const& bias, OptionalTensor const& residual, OptionalTensor const& initial_state,
                 OptionalTensor const& cu_seqlens, OptionalTensor const& seq_idx, OptionalTensor const& lengths,
                 int64_t activation, bool channels_last, bool check) {
  causal_conv1d_out(cpu, x, weight, y, final_state,
                    {bias, residual, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last}, check);
}

std::tuple<Tensor, Tensor, Tensor> backward_out(Tensor const& dy, Tensor const& x, Tensor const& weight,
                                                Tensor const& dx, OptionalTensor const& bias,
                                                OptionalTensor const& initial_state, OptionalTensor const& dfinal_state,
                                                OptionalTensor const& cu_seqlens, OptionalTensor const& seq_idx,
                                                OptionalTensor const& lengths, int64_t activation, bool channels_last,
                                                bool need_dweight, bool need_dbias, bool need_dinitial_state) {
  OptionalTensor const none;
  auto gradients =
      causal_conv1d_backward(cpu, dy, x, weight, dfinal_state,
                             {bias, none, initial_state, cu_seqlens, seq_idx, lengths, activation, channels_last},
                             {true, need_dweight, need_dbias, need_dinitial_state, false}, &dx);
  return {std::get<1>(gradients), std::get<2>(gradients), std::get<3>(gradients)};
}

Tensor update(Tensor const& x, Tensor const& state, Tensor const& weight, OptionalTensor const& bias,
              OptionalTensor const& state_indices, OptionalTensor const& output_state_indices,
              OptionalTensor const& cache_seqlens, OptionalTensor const& num_accepted,
              OptionalTensor const& query_start_loc, int64_t activation, int64_t window, bool channels_last) {
  return causal_conv1d_update(cpu, x, state, weight,
                              {bias, state_indices, output_state_indices, cache_seqlens, num_accepted, query_start_loc,
                               activation, window, channels_last});
}

}  // namespace

#define FALTUNG_FORWARD_ARGUMENTS                                                                                  \
  "Tensor x, Tensor weight, Tensor? bias=None, Tensor? residual=None, Tensor? initial_state=None, Tensor? "        \
  "cu_seqlens=None, "                                                                                              \
  "Tensor? seq_idx=None, Tensor? lengths=None, int activation=0, int state_columns=-1, bool channels_last=False, " \
  "bool check=False"
#define FALTUNG_BACKWARD_ARGUMENTS                                                                                    \
  "Tensor dy, Tensor x, Tensor weight, Tensor? bias=None, Tensor? initial_state=None, Tensor? dfinal_state=None, "    \
  "Tensor? cu_seqlens=None, Tensor? seq_idx=None, Tensor? lengths=None, int activation=0, bool channels_last=False, " \
  "bool need_dx=True, bool need_dweight=True, bool need_dbias=False, bool need_dinitial_state=False, bool "           \
  "need_dresidual=False"
#define FALTUNG_FORWARD_RESULTS "(Tensor y, Tensor final_state)"
#define FALTUNG_BACKWARD_RESULTS "(Tensor dx, Tensor dweight, Tensor dbias, Tensor dinitial_state, Tensor dresidual)"

STABLE_TORCH_LIBRARY_FRAGMENT(faltung, m) {
  m.def("causal_conv1d(" FALTUNG_FORWARD_ARGUMENTS ") -> " FALTUNG_FORWARD_RESULTS);
  m.def("causal_conv1d_detached(" FALTUNG_FORWARD_ARGUMENTS ") -> " FALTUNG_FORWARD_RESULTS);
  m.def("causal_conv1d_backward(" FALTUNG_BACKWARD_ARGUMENTS ") -> " FALTUNG_BACKWARD_RESULTS);
  m.def("causal_conv1d_backward_detached(" FALTUNG_BACKWARD_ARGUMENTS ") -> " FALTUNG_BACKWARD_RESULTS);
  m.def(
      "causal_conv1d_out(Tensor x, Tensor weight, Tensor(a!) y, Tensor(b!)? final_state=None, Tensor? bias=None, "
      "Tensor? residual=None, Tensor? initial_state=None, Tensor? cu_seqlens=None, Tensor? seq_idx=None, "
      "Tensor? lengths=None, int activation=0, bool channels_last=False, bool check=False) -> ()");
  m.def(
      "causal_conv1d_backward_out(Tensor dy, Tensor x, Tensor weight, Tensor(a!) dx, Tensor? bias=None, "
      "Tensor? initial_state=None, Tensor? dfinal_state=None, Tensor? cu_seqlens=None, Tensor? seq_idx=None, "
      "Tensor? lengths=None, int activation=0, bool channels_last=False, bool need_dweight=True, bool "
      "need_dbias=False, "
      "bool need_dinitial_state=False) -> (Tensor dweight, Tensor dbias, Tensor dinitial_state)");
  m.def(
      "causal_conv1d_update(Tensor x, Tensor(a!) state, Tensor weight, Tensor? bias=None, Tensor? state_indices=None, "
      "Tensor? output_state_indices=None, Tensor? cache_seqlens=None, Tensor? num_accepted=None, Tensor? "
      "query_start_loc=None, "
      "int activation=0, int window=0, bool channels_last=False) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(faltung, CPU, m) {
  m.impl("causal_conv1d", TORCH_BOX(&forward));
  m.impl("causal_conv1d_detached", TORCH_BOX(&forward));
  m.impl("causal_conv1d_backward", TORCH_BOX(&backward));
  m.impl("causal_conv1d_backward_detached", TORCH_BOX(&backward));
  m.impl("causal_conv1d_out", TORCH_BOX(&forward_out));
  m.impl("causal_conv1d_backward_out", TORCH_BOX(&backward_out));
  m.impl("causal_conv1d_update", TORCH_BOX(&update));
}
