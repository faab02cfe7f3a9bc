// Views of a problem as the kernels' tensors.
#pragma once
#include <cstdint>
#include <type_traits>

#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::toeplitz {

// `width` columns at a time are one aligned access in every row of every image.
template <typename Pointer, typename View>
Tensor<Pointer> make_tensor(View const& view, std::int64_t columns, int width) {
  auto const& s = view.strides;
  auto const address = reinterpret_cast<std::uintptr_t>(view.data);
  auto const aligned = [&](int group) {
    return s.spatial[2] == 1 && columns % group == 0 && s.spatial[1] % group == 0 && s.batch % group == 0 &&
           s.channel % group == 0 && address % (group * sizeof(std::remove_pointer_t<Pointer>)) == 0;
  };
  return {.data = static_cast<Pointer>(view.data),
          .batch = s.batch,
          .channel = s.channel,
          .row = s.spatial[1],
          .column = s.spatial[2],
          .vectors = aligned(width),
          .pairs = aligned(2)};
}

// Rows of `length` elements, one after the other; without data too.
template <typename Pointer>
bool is_contiguous(Tensor<Pointer> const& tensor, int length) {
  return !tensor.data ||
         (tensor.row == length && tensor.column == 1 && (length % 2 || (tensor.vectors && tensor.pairs)));
}

}  // namespace faltung::long_conv::cuda::toeplitz
