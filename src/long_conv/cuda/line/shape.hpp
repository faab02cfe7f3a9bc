// What the kernels of cuda.line need to know about a problem of one axis, and how its pieces lie in shared memory.
#pragma once
#include <algorithm>

#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::line {

using toeplitz::LagAxis;

// The 8 columns of an MMA are `images` images of one filter times `segments` neighbouring stretches of each. Which ones
// changes nothing in the order of an output's sums.
inline constexpr int columns = 8;

// A warp's sums in y or dx: of each column a chunk of 8 tiles of 16 points.
inline constexpr int tile = 16, tiles = 8, chunk = tile * tiles;
// Chunks lie 32 bytes further apart than their size, so that stretches of one image are in different banks.
inline constexpr int chunk_stride = chunk + 16;

__host__ __device__ constexpr int floor_quotient(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The item of a warp in a turn: to and fro, since the work of items falls with their number where an axis is causal.
__host__ __device__ constexpr int item_of(int turn, int warp, int warps) {
  return turn * warps + (turn & 1 ? warps - 1 - warp : warp);
}

struct Shape {
  LagAxis axis;
  std::int64_t batch, channels;
  int log2_images;  // of 1, 2, 4 or 8
  bool per_sample;  // filters; one image
  __host__ __device__ int images() const { return 1 << log2_images; }
  __host__ __device__ int segments() const { return columns >> log2_images; }
  __host__ __device__ int image_of(int column) const { return column & (images() - 1); }
  __host__ __device__ int segment_of(int column) const { return column >> log2_images; }
  __host__ __device__ int chunks() const { return (axis.extent + chunk - 1) / chunk; }
  Shape transposed() const { return {axis.transposed(), batch, channels, log2_images, per_sample}; }
};

// Of y and dx. An image is a chunk of zeros and its chunks; the zeros of the next one are those behind it.
struct ProductLayout {
  int first_chunk, last_chunk;  // of input relative to output, as far as lags and extent reach
  int image, input;             // elements: stride of images, the whole
  int top;                      // lag at element 0 of the filter, which goes by falling lag
  int copy, filter;             // elements: stride of the copies of the filter, all of them
  explicit ProductLayout(Shape const& shape) {
    LagAxis const& axis = shape.axis;
    int const chunks = shape.chunks();
    // Tile i meets input tile e where some lag in 16 (i - e) - 15 .. 16 (i - e) + 15 has a tap.
    first_chunk = std::max(floor_quotient(-floor_quotient(axis.high + 15, tile), tiles), 1 - chunks);
    last_chunk = std::min(floor_quotient(tiles - 1 + floor_quotient(15 - axis.low, tile), tiles), chunks - 1);
    // In units of 32 bytes: odd with 4 or 8 images, 2 modulo 4 with two of them.
    int units = 9 * (chunks + 1);
    if (shape.images() >= 4) units |= 1;
    if (shape.images() == 2) units += (6 - units % 4) % 4;
    image = 16 * units;
    input = shape.images() * image + chunk_stride;
    int const span = last_chunk >= first_chunk ? last_chunk - first_chunk : 0;
    top = chunk - 1 - chunk * first_chunk;
    copy = chunk * (span + 2) + 32;  // 16 banks from the first
    filter = 2 * copy;
  }
};

// Bytes; `parts` is 2 where the filter is split.
inline std::size_t product_bytes(Shape const& shape, int parts) {
  ProductLayout const layout(shape);
  return 2 * (std::size_t(layout.input) + std::size_t(parts) * layout.filter);
}

// Of dk. A column's points are a row of pieces of 8; rows are an odd number of pieces apart.
inline constexpr int piece = 8;
inline constexpr int diagonals = 14, lags_per_group = piece * diagonals;
// Pieces of zeros before and behind a row of x that is a whole image: as far as a group's lags look past its ends.
inline constexpr int margin_pieces = 20;

struct GradientLayout {
  int pieces;                   // of a row: a multiple of 4
  int dy_row, x_row, x, zeros;  // elements: strides of rows; where x and a piece of zeros begin
  int first_diagonal;  // block diagonal delta holds lags 8 delta + row - column of blocks of 16 rows and 8 columns
  int groups;          // of block diagonals
  int shares;          // of the points, for warps of their own
  int sums;            // floats of one of the 2 shares arrays of sums by lags
  explicit GradientLayout(Shape const& shape) {
    int const all = (shape.axis.extent + 4 * piece - 1) / (4 * piece);
    pieces = 4 * ((all + shape.segments() - 1) / shape.segments());
    dy_row = piece * (pieces + 1);
    x_row = dy_row + (shape.segments() == 1 ? 2 * margin_pieces * piece : 0);
    x = columns * dy_row;
    zeros = x + columns * x_row;
    first_diagonal = floor_quotient(shape.axis.low - 8, piece);
    int const last = floor_quotient(shape.axis.high + 7, piece);
    groups = last < first_diagonal ? 0 : (last - first_diagonal) / diagonals + 1;
    shares = groups >= 8 || pieces < 128 ? 1 : groups >= 4 ? 2 : 4;
    sums = groups * lags_per_group + 16;
  }
  // Lag of element 0 of the sums.
  __host__ __device__ int first_lag() const { return piece * (first_diagonal - 1); }
};

inline std::size_t gradient_bytes(Shape const& shape) {
  GradientLayout const layout(shape);
  return 2 * (std::size_t(layout.zeros) + piece) + 4 * 2 * std::size_t(layout.shares) * layout.sums;
}

}  // namespace faltung::long_conv::cuda::line
