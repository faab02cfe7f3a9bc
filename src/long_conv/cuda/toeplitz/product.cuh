// The Toeplitz product of one filter with eight images: y[b, i, :] = sum over row lags d of x[b, i - d, :] T(d), where
// T(d)[j', j] is the tap of column lag j - j'. In an MMA the 16 rows are eight images x two neighbouring grid rows, K
// runs over 16 input columns, N over 8 output columns. A warp owns 2 `pairs` output rows and slides a window of as many
// input rows over the row lags, so that a step loads one input row and one row of the filter.
#pragma once
#include "cuda/element.cuh"
#include "cuda/mma.cuh"
#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::toeplitz {

using namespace faltung::cuda;

// x[b, c] for `count` images from b to shared memory [image][row][column]; columns beyond the grid and missing images
// are zeros.
template <typename Element>
__device__ __forceinline__ void block_stage_images(Element* to, Tensor<Element const*> const& x, Shape const& shape,
                                                   Layout const& layout, std::int64_t b, int count, std::int64_t c) {
  Element const* const from = x.data + b * x.batch + c * x.channel;
  int const rows = shape.rows.extent, columns = shape.columns.extent;
  if (x.vectors) {
    int const per_row = layout.row / 8, per_image = rows * per_row;
    for (int i = threadIdx.x; i < images * per_image; i += threads) {
      int const image = i / per_image, rest = i - image * per_image, row = rest / per_row, column = rest % per_row * 8;
      Element* const at = to + image * layout.image + row * layout.row + column;
      if (image < count && column < columns)
        thread_copy_async(at, from + image * x.batch + row * x.row + column);
      else
        *reinterpret_cast<uint4*>(at) = uint4{};
    }
    return;
  }
  int const per_image = rows * layout.row;
  constexpr int unroll = 8;
  for (int start = threadIdx.x; start < images * per_image; start += unroll * threads) {
    Element value[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int const i = start + u * threads, image = i / per_image, rest = i - image * per_image, row = rest / layout.row,
                column = rest % layout.row;
      value[u] =
          image < count && column < columns ? from[image * x.batch + row * x.row + column * x.column] : Element(0.f);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int const i = start + u * threads, image = i / per_image;
      if (i < images * per_image) to[image * layout.image + (i - image * per_image)] = value[u];
    }
  }
}

// A filter to shared memory: row r holds the taps of row lag low + r by falling column lag, position e that of 16 tiles
// - 1 - e.
template <typename Element>
__device__ __forceinline__ void block_stage_filter(Element* to, Element const* k, std::int64_t row_stride,
                                                   std::int64_t column_stride, Shape const& shape,
                                                   Layout const& layout) {
  int const total = shape.row_lags() * layout.filter_row;
  constexpr int unroll = 8;
  for (int start = threadIdx.x; start < total; start += unroll * threads) {
    Element value[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int const i = start + u * threads, r = i / layout.filter_row, e = i % layout.filter_row;
      std::int64_t const m0 = shape.rows.tap(shape.rows.low + r), m1 = shape.columns.tap(layout.filter_row / 2 - 1 - e);
      value[u] = i < total && m0 >= 0 && m1 >= 0 ? k[m0 * row_stride + m1 * column_stride] : Element(0.f);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int const i = start + u * threads;
      if (i >= total) continue;
      to[i] = value[u];
      if ((i + 1) % layout.filter_row != 0) to[layout.filter_copy + i + 1] = value[u];
    }
  }
}

// The inputs of a warp's step: rows of eight images as A fragments, loaded one at a time into a ring.
template <typename Element, int tiles, int pairs>
struct RowWindow {
  std::uint32_t row[2 * pairs][2 * tiles];  // [slot][8-column block]

  // Lane l points at row l % 8 of matrix l / 8: image l % 8, columns 8 (l / 8) and on.
  __device__ __forceinline__ void load(int slot, Element const* x, Element const* zeros, Layout const& layout,
                                       int grid_row, int rows) {
    int const lane = threadIdx.x % 32;
    bool const inside = grid_row >= 0 && grid_row < rows;
    warp_load_matrices(row[slot], shared_address(inside ? x + lane % 8 * layout.image + grid_row * layout.row +
                                                              lane / 8 % (2 * tiles) * 8
                                                        : zeros));
  }
};

// Sums of output rows first_row .. first_row + 2 pairs - 1. Column n of the MMA stands for column 4 (n / 2) + 2 q + n %
// 2 of its block of 16, q = 0, 1 being the two MMAs of the block: a lane then holds four neighbouring columns.
template <typename Element, int tiles, int pairs>
__device__ __forceinline__ void warp_toeplitz_product(float (&sums)[pairs][tiles][2][4], Element const* x,
                                                      Element const* zeros, Element const* filter, Shape const& shape,
                                                      Layout const& layout, int first_row) {
  constexpr int slots = 2 * pairs;
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, rows = shape.rows.extent;
  // The word that holds lags L, L - 1 with L = column - 2 t: in the first copy where L is odd, in the second where it
  // is even.
  std::uint32_t const* const words = reinterpret_cast<std::uint32_t const*>(filter + (g & 1 ? 0 : layout.filter_copy)) +
                                     8 * tiles - (g & 1) - 2 * (g / 2) + t;
  int const first = max(shape.rows.low, first_row - (rows - 1)), last = min(shape.rows.high, first_row + slots - 1);
  RowWindow<Element, tiles, pairs> window;
#pragma unroll
  for (int j = 1; j < slots; ++j) window.load(j, x, zeros, layout, first_row - first + j, rows);
  for (int d0 = first; d0 <= last; d0 += slots) {
#pragma unroll
    for (int u = 0; u < slots; ++u) {
      int const d = d0 + u;
      if (d > last) break;
      window.load((slots - u) % slots, x, zeros, layout, first_row - d, rows);
      std::uint32_t const* const lag_row = words + (d - shape.rows.low) * (layout.filter_row / 2);
      std::uint32_t taps[2 * tiles - 1][2][2];  // [output tile - input tile + tiles - 1][q][half of K]
#pragma unroll
      for (int delta = 0; delta < 2 * tiles - 1; ++delta)
#pragma unroll
        for (int q = 0; q < 2; ++q)
#pragma unroll
          for (int half = 0; half < 2; ++half) taps[delta][q][half] = lag_row[-8 * (delta - tiles + 1) - q + 4 * half];
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair) {
        auto const& upper = window.row[(2 * pair + slots - u) % slots];
        auto const& lower = window.row[(2 * pair + 1 + slots - u) % slots];
#pragma unroll
        for (int out = 0; out < tiles; ++out)
#pragma unroll
          for (int q = 0; q < 2; ++q)
#pragma unroll
            for (int in = 0; in < tiles; ++in) {
              auto const& b = taps[out - in + tiles - 1][q];
              warp_mma<Element>(sums[pair][out][q], upper[2 * in], lower[2 * in], upper[2 * in + 1], lower[2 * in + 1],
                                b[0], b[1]);
            }
      }
    }
  }
}

// y[b + image, c, row, :] for the rows of a warp; `x` in shared memory serves the shortcut.
template <typename Element, int tiles, int pairs>
__device__ __forceinline__ void warp_store_rows(float const (&sums)[pairs][tiles][2][4], Element const* x,
                                                Tensor<Element*> const& y, Shortcut const& shortcut, Shape const& shape,
                                                Layout const& layout, std::int64_t b, int count, std::int64_t c,
                                                int first_row) {
  int const lane = threadIdx.x % 32, image = lane / 4, t = lane % 4;
  if (image >= count) return;
  float const scale = shortcut.data ? thread_load<float>(shortcut.data, shortcut.dtype, c * shortcut.stride) : 0.f;
#pragma unroll
  for (int pair = 0; pair < pairs; ++pair)
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      int const row = first_row + 2 * pair + lower;
      if (row >= shape.rows.extent) continue;
      Element* const to = y.data + (b + image) * y.batch + c * y.channel + row * y.row;
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
        int const column = 16 * tile + 4 * t;
        float value[4] = {sums[pair][tile][0][2 * lower], sums[pair][tile][0][2 * lower + 1],
                          sums[pair][tile][1][2 * lower], sums[pair][tile][1][2 * lower + 1]};
        if (shortcut.data)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            value[i] += scale * widened(x[image * layout.image + row * layout.row + column + i]);
        if (y.vectors) {
          if (column < shape.columns.extent)
            *reinterpret_cast<uint2*>(to + column) =
                uint2{pack<Element>(value[0], value[1]), pack<Element>(value[2], value[3])};
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (column + i < shape.columns.extent) to[(column + i) * y.column] = rounded<Element>(value[i]);
        }
      }
    }
}

}  // namespace faltung::long_conv::cuda::toeplitz
