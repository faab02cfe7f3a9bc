// What the toeplitz kernels need to know about a problem, and how its pieces lie in shared memory.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::toeplitz {

inline constexpr int images = 8;  // of one filter: the 8 columns of an MMA
// Per block: 64 columns leave room for one block on a multiprocessor.
template <int tiles>
inline constexpr int threads = tiles == 4 ? 256 : 128;
inline constexpr int rows_per_warp = 4;  // output rows whose sums a warp holds

// An axis by lags: output minus input position, from -(extent - 1) to extent - 1. Circular axes repeat taps, so that
// every pair of positions has its lag in that range.
struct LagAxis {
  int extent;
  int low, high;  // lags that have a tap: empty where low > high
  std::int64_t filter;
  std::int64_t centre;  // within [0, extent) on a circular axis
  bool circular;
  int sign = 1;  // -1: the transposed product, whose lags count the other way

  // The tap of a lag, or -1.
  __host__ __device__ std::int64_t tap(int lag) const {
    std::int64_t m = centre + sign * lag;
    if (circular) {
      m += m < 0 ? extent : m >= extent ? -extent : 0;
      return m < filter ? m : -1;
    }
    return lag >= low && lag <= high ? m : -1;
  }
  __host__ __device__ LagAxis transposed() const { return {extent, -high, -low, filter, centre, circular, -sign}; }
};

struct Shape {
  LagAxis rows, columns;
  std::int64_t batch, channels;
  int images_per_filter;  // 8, or 1 where each sample has its own filter

  // The shape of dx as a product of dy.
  __host__ __device__ Shape transposed() const {
    return {rows.transposed(), columns.transposed(), batch, channels, images_per_filter};
  }
  __host__ __device__ int row_lags() const { return rows.high < rows.low ? 0 : rows.high - rows.low + 1; }
};

// The loop over lags runs in whole turns of a ring of rows_per_warp input rows, without a branch inside: the filter has
// rows of zeros behind its last lag, and an image rows of zeros above and below.
inline constexpr int spare_lags = rows_per_warp - 1;
inline constexpr int rows_above = 2 * (rows_per_warp - 1), rows_below = rows_per_warp;

// Element offsets in shared memory for `tiles` blocks of 16 columns. Images are 16 bytes further apart than their size,
// which puts the eight images of a fragment into different banks; the second copy of the filter, shifted by one lag so
// that a pair of lags of either parity is one aligned word, lies 16 banks from the first.
struct Layout {
  int row, image, operand;              // of x: strides of rows and images, the whole
  int filter_row, filter_copy, filter;  // of the filter: strides of rows and copies, the whole
  __host__ __device__ Layout(Shape const& shape, int tiles) {
    row = 16 * tiles;
    image = (rows_above + shape.rows.extent + rows_below) * row + 8;
    operand = images * image;
    filter_row = 32 * tiles;
    filter_copy = ((shape.row_lags() + spare_lags) * filter_row + 63) / 64 * 64 + 32;
    filter = 2 * filter_copy;
  }
};

__host__ __device__ inline std::size_t forward_bytes(Shape const& shape, int tiles) {
  Layout const layout(shape, tiles);
  return 2 * (layout.operand + layout.filter);
}
// What a backward asks for decides what lies beside dy: the filter for dx, x and the sums by lags for dk.
__host__ __device__ inline std::size_t backward_bytes(Shape const& shape, int tiles, bool dx, bool dk) {
  Layout const layout(shape, tiles);
  std::size_t const for_dx = 2 * layout.filter, for_dk = 2 * layout.operand + 4 * shape.row_lags() * layout.filter_row;
  return 2 * layout.operand + (dx ? for_dx : 0) + (dk ? for_dk : 0);
}

}  // namespace faltung::long_conv::cuda::toeplitz
