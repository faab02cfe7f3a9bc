// What the toeplitz kernels are launched with.
#pragma once
#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::toeplitz {

// Strides in elements. `vectors`: groups of 8 columns (inputs) or 4 (outputs) are contiguous and aligned in every row;
// `pairs`: groups of two are.
template <typename Pointer>
struct Tensor {
  Pointer data = nullptr;
  std::int64_t batch = 0, channel = 0, row = 0, column = 0;
  bool vectors = false, pairs = false;
};

struct Shortcut {
  void const* data = nullptr;
  std::int64_t stride = 0;
  Dtype dtype = FALTUNG_F32;
};

template <typename Element>
struct ForwardKernelArgs {
  Shape shape;
  Tensor<Element const*> x, k;
  Shortcut shortcut;
  Tensor<Element*> y;
};

// Null dx or dk: not asked for.
template <typename Element>
struct BackwardKernelArgs {
  Shape shape;
  Tensor<Element const*> dy, x, k;
  Shortcut shortcut;
  Tensor<Element*> dx, dk;
};

}  // namespace faltung::long_conv::cuda::toeplitz
