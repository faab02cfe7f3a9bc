// The Toeplitz product of one filter with eight images: y[b, i, :] = sum over row lags d of T(d) x[b, i - d, :], where
// T(d)[j, j'] is the tap of column lag j - j'. In an MMA the 16 rows are output columns, K runs over 16 input columns,
// the 8 columns are images. A warp owns 4 output rows and slides a ring of as many input rows over the row lags, so
// that a step loads one input row and one row of the filter, all at constant offsets from two pointers, and every
// fragment lies in the registers in which it is used.
#pragma once
#include "cuda/element.cuh"
#include "cuda/grid.cuh"
#include "cuda/mma.cuh"
#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::toeplitz {

using namespace faltung::cuda;

// An image to shared memory by words of one element or of two.
template <typename Word, typename Element, int tiles>
__device__ __forceinline__ void warp_stage_words(Element* target, Element const* from, Tensor<Element const*> const& x,
                                                 Shape const& shape, Layout const& layout, bool present) {
  constexpr int elements = sizeof(Word) / sizeof(Element), row_length = 16 * tiles / elements,
                row_step = row_length < 32 ? 32 / row_length : 1, unroll = 8;
  int const lane = thread_lane(), rows = shape.rows.extent;
#pragma unroll
  for (int i = lane % row_length; i < row_length; i += 32) {
    int const column = elements * i;
    bool const inside = present && column < shape.columns.extent;
    Element const* at = from + column * x.column + lane / row_length * x.row;
    for (int start = lane / row_length; start < rows; start += unroll * row_step) {
      Word value[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u, at += row_step * x.row)
        value[u] = inside && start + u * row_step < rows ? *reinterpret_cast<Word const*>(at) : Word(0);
#pragma unroll
      for (int u = 0; u < unroll; ++u)
        if (int const row = start + u * row_step; row < rows)
          *reinterpret_cast<Word*>(target + row * layout.row + column) = value[u];
    }
  }
}

// x[b, c] for `count` images from b to shared memory [image][row][column]; columns beyond the grid and missing images
// are zeros. A warp takes an image at a time, so that indices need no division.
template <typename Element, int tiles>
__device__ __forceinline__ void block_stage_images(Element* to, Tensor<Element const*> const& x, Shape const& shape,
                                                   Layout const& layout, std::int64_t b, int count, std::int64_t c) {
  int const lane = thread_lane(), rows = shape.rows.extent, columns = shape.columns.extent;
  for (int image = threadIdx.x / 32; image < images; image += threads<tiles> / 32) {
    Element const* const from = x.data + (b + image) * x.batch + c * x.channel;
    Element* const target = to + image * layout.image;
    if (x.vectors) {
      constexpr int per_row = 2 * tiles;
      int const column = lane % per_row * 8;
      bool const present = image < count && column < columns;
      Element const* source = from + lane / per_row * x.row + column;
      for (int row = lane / per_row; row < rows; row += 32 / per_row, source += 32 / per_row * x.row) {
        if (present)
          thread_copy_async(target + row * layout.row + column, source);
        else
          *reinterpret_cast<uint4*>(target + row * layout.row + column) = uint4{};
      }
    } else if (x.pairs) {
      warp_stage_words<std::uint32_t, Element, tiles>(target, from, x, shape, layout, image < count);
    } else {
      warp_stage_words<std::uint16_t, Element, tiles>(target, from, x, shape, layout, image < count);
    }
  }
}

// Zeros to the rows above and below the images.
template <typename Element, int tiles>
__device__ __forceinline__ void block_stage_margins(Element* to, Shape const& shape, Layout const& layout) {
  constexpr int per_row = 2 * tiles, per_image = (rows_above + rows_below) * per_row;
  for (int i = threadIdx.x; i < images * per_image; i += threads<tiles>) {
    int const image = i / per_image, margin_row = i % per_image / per_row;
    int const row = margin_row < rows_above ? margin_row : margin_row + shape.rows.extent;
    *reinterpret_cast<uint4*>(to + image * layout.image + row * layout.row + i % per_row * 8) = uint4{};
  }
}

// A filter to shared memory: row r holds the taps of row lag low + r by falling column lag, position e that of 16 tiles
// - 1 - e. Rows beyond the last lag are zeros. A thread stays in its column.
template <typename Element, int tiles>
__device__ __forceinline__ void block_stage_filter(Element* to, Element const* k, std::int64_t row_stride,
                                                   std::int64_t column_stride, Shape const& shape,
                                                   Layout const& layout) {
  constexpr int filter_row = 32 * tiles, row_step = threads<tiles> / filter_row, unroll = 8;
  LagAxis const& axis = shape.rows;
  int const e = threadIdx.x % filter_row, first = threadIdx.x / filter_row, lags = shape.row_lags(),
            rows = lags + spare_lags;
  std::int64_t const m1 = shape.columns.tap(16 * tiles - 1 - e);
  int const live_lags = m1 >= 0 ? lags : 0;
  Element const* const column = k + m1 * column_stride;
  Element const* at = column + (axis.centre + axis.sign * (axis.low + first)) * row_stride;
  std::int64_t const step = axis.sign * row_step * row_stride;
  for (int start = first; start < rows; start += unroll * row_step) {
    Element value[unroll];
    if (!axis.circular) {
#pragma unroll
      for (int u = 0; u < unroll; ++u, at += step) value[u] = start + u * row_step < live_lags ? *at : Element(0.f);
    } else {
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        int const r = start + u * row_step;
        std::int64_t const m0 = r < live_lags ? axis.tap(axis.low + r) : -1;
        value[u] = m0 >= 0 ? column[m0 * row_stride] : Element(0.f);
      }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int const r = start + u * row_step;
      if (r >= rows) continue;
      to[r * filter_row + e] = value[u];
      if (e + 1 < filter_row) to[layout.filter_copy + r * filter_row + e + 1] = value[u];
    }
  }
}

// Blocks of 8 columns of a row of the eight images.
template <int blocks>
__device__ __forceinline__ void warp_load_row(std::uint32_t (&to)[blocks], std::uint32_t row) {
  if constexpr (blocks == 2)
    warp_load_matrices<2>(to, row);
  else
#pragma unroll
    for (int i = 0; i < blocks; i += 4) warp_load_matrices<4>(to + i, row + 16 * i);
}

// Sums of output rows first_row .. first_row + 3: [row][tile of 16 columns]. Row n of the MMA's upper (q = 0) and lower
// (q = 1) half stands for column 4 (n / 2) + 2 q + n % 2 of its tile: transposed, a lane then holds four neighbouring
// columns.
template <typename Element, int tiles>
__device__ __forceinline__ void warp_toeplitz_product(float (&sums)[rows_per_warp][tiles][4], Element const* x,
                                                      Element const* filter, Shape const& shape, Layout const& layout,
                                                      int first_row) {
  constexpr int row = 16 * tiles, filter_words = 16 * tiles;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  int const first = max(shape.rows.low, first_row - (shape.rows.extent - 1));
  int const last = min(shape.rows.high, first_row + rows_per_warp - 1);
  if (first > last) return;
  // Lane l points at row l % 8 of matrix l / 8: image l % 8, columns 8 (l / 8) and on, of the row that the first lag
  // meets.
  std::uint32_t input =
      shared_address(x + lane % 8 * layout.image + lane / 8 % (2 * tiles) * 8 + (first_row - first) * row);
  // The word that holds lags L, L - 1 with L = column - 2 t: in the first copy where L is odd, in the second where it
  // is even.
  std::uint32_t const* words = reinterpret_cast<std::uint32_t const*>(filter + (g & 1 ? 0 : layout.filter_copy)) +
                               8 * tiles - (g & 1) - 2 * (g / 2) + t + (first - shape.rows.low) * filter_words;
  std::uint32_t ring[rows_per_warp][2 * tiles];  // row first_row - d + j of x lies in slot (j - d + first) mod 4
#pragma unroll
  for (int j = 1; j < rows_per_warp; ++j) warp_load_row(ring[j], input + 2 * row * j);
  for (int d = first; d <= last; d += rows_per_warp) {
#pragma unroll
    for (int u = 0; u < rows_per_warp; ++u) {  // past `last` every input row is a margin or every tap a zero
      warp_load_row(ring[(rows_per_warp - u) % rows_per_warp], input - 2 * row * u);
      std::uint32_t taps[2 * tiles - 1][4];  // [output tile - input tile + tiles - 1][q + 2 (half of K)]
#pragma unroll
      for (int delta = 0; delta < 2 * tiles - 1; ++delta)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          taps[delta][i] = words[u * filter_words - 8 * (delta - tiles + 1) - i % 2 + 4 * (i / 2)];
#pragma unroll
      for (int j = 0; j < rows_per_warp; ++j) {
        auto const& in_row = ring[(j + rows_per_warp - u) % rows_per_warp];
#pragma unroll
        for (int out = 0; out < tiles; ++out)
#pragma unroll
          for (int in = 0; in < tiles; ++in) {
            auto const& a = taps[out - in + tiles - 1];
            warp_mma<Element>(sums[j][out], a[0], a[1], a[2], a[3], in_row[2 * in], in_row[2 * in + 1]);
          }
      }
    }
    input -= 2 * row * rows_per_warp;
    words += rows_per_warp * filter_words;
  }
}

// y[b + image, c, row, :] for the rows of a warp; `x` in shared memory serves the shortcut.
template <typename Element, int tiles>
__device__ __forceinline__ void warp_store_rows(float (&sums)[rows_per_warp][tiles][4], Element const* x,
                                                Tensor<Element*> const& y, Shortcut const& shortcut, Shape const& shape,
                                                Layout const& layout, std::int64_t b, int count, std::int64_t c,
                                                int first_row) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  if (shortcut.data) {
    float const scale = thread_load<float>(shortcut.data, shortcut.dtype, c * shortcut.stride);
#pragma unroll
    for (int j = 0; j < rows_per_warp; ++j)
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[j][tile][i] += scale * widened(x[(2 * t + i % 2) * layout.image + (first_row + j) * layout.row +
                                                16 * tile + 4 * (g / 2) + 2 * (i / 2) + g % 2]);
  }
  Element* to = y.data + (b + g) * y.batch + c * y.channel + first_row * y.row;
#pragma unroll
  for (int j = 0; j < rows_per_warp; ++j, to += y.row)
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      auto const& sum = sums[j][tile];
      uint2 const value{warp_transpose(pack<Element>(sum[0], sum[1])), warp_transpose(pack<Element>(sum[2], sum[3]))};
      int const column = 16 * tile + 4 * t;
      if (g >= count || first_row + j >= shape.rows.extent || column >= shape.columns.extent) continue;
      if (y.vectors) {
        *reinterpret_cast<uint2*>(to + column) = value;
      } else if (y.pairs) {
        *reinterpret_cast<std::uint32_t*>(to + column) = value.x;
        if (column + 2 < shape.columns.extent) *reinterpret_cast<std::uint32_t*>(to + column + 2) = value.y;
      } else {
        auto const* const elements = reinterpret_cast<Element const*>(&value);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (column + i < shape.columns.extent) to[(column + i) * y.column] = elements[i];
      }
    }
}

}  // namespace faltung::long_conv::cuda::toeplitz
