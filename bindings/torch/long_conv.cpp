// torch.ops.faltung.long_conv and its backward: schemas, and the implementations for CPU tensors.
// boundary: the faltung_boundary of spatial axis i in bits 2i and 2i + 1. centre: one value per spatial axis, or None for the rule of
// each boundary. Gradients that are not wanted come back with shape [0].
// Each exists twice: python/faltung gives gradients to the plain name; the ..._detached ones never get an autograd registration, which
// would cost every call 6 microseconds.
#include "long_conv.hpp"

#include "parallel.hpp"

namespace {

using namespace faltung::torch_binding;

Launch const cpu{.parallel_for = torch_threads};

Tensor long_conv(Tensor const& x, Tensor const& k, OptionalTensor const& shortcut, int64_t boundary, bool channels_last,
                 std::optional<std::vector<int64_t>> const& centre) {
  return long_conv_forward(cpu, x, k, shortcut, {boundary, channels_last, centre});
}

std::tuple<Tensor, Tensor, Tensor> long_conv_backward_cpu(Tensor const& dy, Tensor const& x, Tensor const& k,
                                                          OptionalTensor const& shortcut, int64_t boundary, bool channels_last,
                                                          std::optional<std::vector<int64_t>> const& centre, bool need_dx,
                                                          bool need_dk, bool need_dshortcut) {
  return long_conv_backward(cpu, dy, x, k, shortcut, {boundary, channels_last, centre}, {need_dx, need_dk, need_dshortcut});
}

}  // namespace

#define FALTUNG_LONG_CONV_ARGUMENTS \
  "Tensor x, Tensor k, Tensor? shortcut=None, int boundary=0, bool channels_last=False, int[]? centre=None"
#define FALTUNG_LONG_CONV_BACKWARD_ARGUMENTS \
  "Tensor dy, " FALTUNG_LONG_CONV_ARGUMENTS ", bool need_dx=True, bool need_dk=True, bool need_dshortcut=False"
#define FALTUNG_LONG_CONV_GRADIENTS "(Tensor dx, Tensor dk, Tensor dshortcut)"

STABLE_TORCH_LIBRARY_FRAGMENT(faltung, m) {
  m.def("long_conv(" FALTUNG_LONG_CONV_ARGUMENTS ") -> Tensor");
  m.def("long_conv_detached(" FALTUNG_LONG_CONV_ARGUMENTS ") -> Tensor");
  m.def("long_conv_backward(" FALTUNG_LONG_CONV_BACKWARD_ARGUMENTS ") -> " FALTUNG_LONG_CONV_GRADIENTS);
  m.def("long_conv_backward_detached(" FALTUNG_LONG_CONV_BACKWARD_ARGUMENTS ") -> " FALTUNG_LONG_CONV_GRADIENTS);
}

STABLE_TORCH_LIBRARY_IMPL(faltung, CPU, m) {
  m.impl("long_conv", TORCH_BOX(&long_conv));
  m.impl("long_conv_detached", TORCH_BOX(&long_conv));
  m.impl("long_conv_backward", TORCH_BOX(&long_conv_backward_cpu));
  m.impl("long_conv_backward_detached", TORCH_BOX(&long_conv_backward_cpu));
}
