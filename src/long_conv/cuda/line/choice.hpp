// Problem -> shapes of the launches of cuda.line.
#pragma once
#include <cuda_runtime_api.h>

#include <optional>

#include "long_conv/cuda/line/shape.hpp"

namespace faltung::long_conv::cuda::line {

// As many images side by side as the batch has and shared memory holds; nothing where not even one fits.
std::optional<Shape> product_shape(Problem const&);
std::optional<Shape> gradient_shape(Problem const&);

inline bool is_split(Problem const& p) { return p.k_dtype == FALTUNG_F32; }

// Blocks: channels, and batch entries by `per_block`.
dim3 grid_of(Problem const&, std::int64_t per_block);
// Of blocks that have so many items, of falling work where most lags have taps: the choice with most warps at work on a
// multiprocessor, on average.
struct Occupancy {
  int warps, blocks;  // of a block, on a multiprocessor
};
Occupancy occupancy_of(Shape const&, int items, std::size_t shared_bytes, int registers, int most);

}  // namespace faltung::long_conv::cuda::line
