// The last step of two causal axes of a plane: each tile of 32 x 32 points with itself, plus what the other parts
// summed up.
#pragma once
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {

inline constexpr int causal_block_of_pairs = 16;  // points of the inner one of two causal axes beside a third axis
inline constexpr int causal_tile = 32;            // points of a tile along either axis

struct TileProduct {
  int planes, rows, columns, plane_taps, row_taps, column_taps;
  int channels, batch;
  bool per_sample;  // filters
  ConstView x, k;
  View y;
  Dtype x_dtype, k_dtype, shortcut_dtype;
  ConstVector shortcut;
  void const* sums;         // [batch, channels, planes, rows, columns] in the type of computation; null: none
  void const* turned_sums;  // [batch, columns, channels, rows]; null: none
  Divisor by_groups = 1, by_tiles = 1, by_tile_columns = 1, by_channels = 1;  // set by multiply_tiles
};

void multiply_tiles(TileProduct, Precision, cudaStream_t);
// The same for cubes of 16 points along three causal axes.
void multiply_cubes(TileProduct, Precision, cudaStream_t);
std::size_t cubes_shared_bytes(Precision);
// y = sums + shortcut x, where nothing is left to multiply.
void store_sums(TileProduct const&, Precision, cudaStream_t);

}  // namespace faltung::long_conv::cuda::transformed
