// What the host tells the kernels of cuda.onchip, and the functions that launch them.
//
// A row of up to 64 real points is transformed at the frequencies k + 1/4 of 64, which are the 64 that a real line
// padded to 128 needs; what wraps around changes its sign and is cropped (transformed/kernels.hpp). A column is
// transformed at the 128 frequencies of its padded length, as 64 even ones and 64 odd ones.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::onchip {

using transformed::TapAxis;

inline constexpr int points = 64;                          // of a grid, along either axis, and slots of a row
inline constexpr int positions = 2 * points;               // of a filter, along either axis
inline constexpr int spectrum_size = 2 * points * points;  // complex elements
inline constexpr int small_points = 16;                    // of a grid whose lines fit a lane's registers
inline constexpr int images_per_sum = 16;                  // no chain of sums over the batch is longer than this, twice

// One fp32 tap for a position, if any: what the kernels have short loops for.
inline bool is_plain(transformed::FilterRows const& rows) {
  return rows.dtype == FALTUNG_F32 && !rows.axes[1].circular && !rows.axes[2].circular;
}

struct Filters {
  transformed::FilterRows rows;  // axes[1] along columns, axes[2] along rows; `chunk` says which
  void* spectra;                 // [units][spectrum_size], in the order of ColumnPlace
};

struct Grid {
  int rows, columns;
  transformed::Chunk chunk;  // units from first_channel on, all images of each
};

// Whole grids in the order of memory, every row on a boundary of sixteen bytes.
inline bool is_plain(Grid const& grid, ConstView const& view, int extent = points) {
  auto const& strides = view.strides;
  return grid.rows == extent && grid.columns == extent && strides.spatial[2] == 1 && strides.spatial[1] == extent &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && strides.batch % 4 == 0 && strides.channel % 4 == 0;
}

// to[units, images] = from times the filters' spectra, or their conjugates, + shortcut from.
struct Product {
  Grid grid;
  ConstView from;
  View to;
  ConstVector shortcut;
  Dtype shortcut_dtype;
  void const* spectra;
  bool conjugate;
};

// dk of units, and dx where asked for.
struct Gradient {
  Grid grid;
  ConstView x, dy;
  View dx;
  ConstVector shortcut;
  Dtype shortcut_dtype;
  transformed::FilterRows filter;  // dk
  void const* spectra;
  void* sums;  // [most_gradient_blocks][spectrum_size], where there are more than images_per_sum images
};

inline constexpr int most_gradient_blocks = 256;
std::size_t filters_shared_bytes();  // of a block
std::size_t gradients_shared_bytes();

void transform_filters(Filters const&, cudaStream_t);
void multiply(Product const&, cudaStream_t);
void gradients(Gradient const&, cudaStream_t);

// The same for up to 16 points an axis, whose kernels transform filters themselves: neither spectra nor sums.
void multiply_small(Product const&, transformed::FilterRows const&, cudaStream_t);
void small_gradients(Gradient const&, ConstView const& k, cudaStream_t);

}  // namespace faltung::long_conv::cuda::onchip
