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

// `whole`: square grids of 16 `tiles` points with all their lags and zeros around them, images and filters contiguous.
// Known when the kernel is compiled, this leaves little of what sets up addresses and margins.
template <bool whole, int tiles>
__host__ __device__ constexpr decltype(auto) shape_of(Shape const& shape) {
  if constexpr (whole) {
    constexpr int extent = 16 * tiles;
    LagAxis const axis{extent, 1 - extent, extent - 1, 2 * extent - 1, extent - 1, false};
    return Shape{axis, axis, shape.batch, shape.channels, images};
  } else {
    return (shape);
  }
}
template <bool whole, int row_length, typename Pointer>
__host__ __device__ constexpr decltype(auto) tensor_of(Tensor<Pointer> const& tensor) {
  if constexpr (whole) {
    constexpr bool even = row_length % 2 == 0;
    return Tensor<Pointer>{tensor.data, tensor.batch, tensor.channel, row_length, 1, even, even};
  } else {
    return (tensor);
  }
}

// Null dx or dk: not asked for.
template <typename Element>
struct BackwardKernelArgs {
  Shape shape;
  Tensor<Element const*> dy, x, k;
  Shortcut shortcut;
  Tensor<Element*> dx, dk;
};

}  // namespace faltung::long_conv::cuda::toeplitz
