// The fp32 kernels of cuda.toeplitz.
#pragma once
#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::toeplitz {

// Largest magnitudes, as bits, of the images of an operand or of what each warp saw. A kernel has two of these beside
// its dynamic memory.
using Magnitudes = std::uint32_t[8];

// Bytes of dynamic shared memory: y and dx; dk.
inline std::size_t split_forward_bytes(Shape const& shape, int tiles) { return 2 * forward_bytes(shape, tiles); }
inline std::size_t split_gradient_bytes(Shape const& shape, int tiles) {
  Layout const layout(shape, tiles);
  return 2 * 4 * layout.operand + 4 * shape.row_lags() * layout.filter_row;
}

void split_forward(Problem const&, ForwardArgs const&);
void split_backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::toeplitz
