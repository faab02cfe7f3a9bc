// torch.ops.faltung.causal_conv1d, its backward and its update: schemas, and the implementations for CPU tensors.
// activation: faltung_activation. state_columns: of the final state, -1 where none is wanted. window: faltung_window.
// What is not wanted comes back with shape [0]. Forward and backward exist twice, for the reason told in long_conv.cpp,
// and once more with outputs that the caller brings (..._out), for drop-in modules; these and the update have no
// gradients.
#include "causal_conv1d_operators.hpp"
#include "parallel.hpp"

namespace {

using namespace faltung::torch_binding;

struct CpuLaunch {
  explicit CpuLaunch(Tensor const&) {}
  operator Launch const&() const { return launch; }
  Launch launch{.parallel_for = torch_threads};
};

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

STABLE_TORCH_LIBRARY_IMPL(faltung, CPU, m) { CausalConv1dOperators<CpuLaunch>::implement(m); }
