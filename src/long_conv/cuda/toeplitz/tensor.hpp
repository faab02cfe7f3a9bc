// Views of a problem as the kernels' tensors.
#pragma once
#include <cstdint>

#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::toeplitz {

// `width` columns at a time are one aligned access in every row of every image.
template <typename Pointer, typename View>
Tensor<Pointer> make_tensor(View const& view, std::int64_t columns, int width) {
  auto const& s = view.strides;
  std::uintptr_t const address = reinterpret_cast<std::uintptr_t>(view.data);
  bool const vectors = s.spatial[2] == 1 && columns % width == 0 && s.spatial[1] % width == 0 && s.batch % width == 0 &&
                       s.channel % width == 0 && address % (2 * width) == 0;
  return {static_cast<Pointer>(view.data), s.batch, s.channel, s.spatial[1], s.spatial[2], vectors};
}

}  // namespace faltung::long_conv::cuda::toeplitz
