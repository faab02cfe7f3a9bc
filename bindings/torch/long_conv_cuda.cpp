// The operators of long_conv.cpp for CUDA tensors: the same bodies on the current stream of x's device. Nothing synchronises; outputs and
// workspace come from torch's allocator.
#include "cuda.hpp"
#include "long_conv.hpp"

namespace {

using namespace faltung::torch_binding;

Tensor long_conv(Tensor const& x, Tensor const& k, OptionalTensor const& shortcut, int64_t boundary, bool channels_last,
                 std::optional<std::vector<int64_t>> const& centre) {
  return long_conv_forward(CudaLaunch(x), x, k, shortcut, {boundary, channels_last, centre});
}

std::tuple<Tensor, Tensor, Tensor> long_conv_backward_cuda(Tensor const& dy, Tensor const& x, Tensor const& k,
                                                           OptionalTensor const& shortcut, int64_t boundary, bool channels_last,
                                                           std::optional<std::vector<int64_t>> const& centre, bool need_dx,
                                                           bool need_dk, bool need_dshortcut) {
  return long_conv_backward(CudaLaunch(x), dy, x, k, shortcut, {boundary, channels_last, centre},
                            {need_dx, need_dk, need_dshortcut});
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(faltung, CUDA, m) {
  m.impl("long_conv", TORCH_BOX(&long_conv));
  m.impl("long_conv_detached", TORCH_BOX(&long_conv));
  m.impl("long_conv_backward", TORCH_BOX(&long_conv_backward_cuda));
  m.impl("long_conv_backward_detached", TORCH_BOX(&long_conv_backward_cuda));
}
