// From grid to frequencies: the rows of images, and the rows of a filter by lags.
#pragma once
#include "cuda/element.cuh"
#include "cuda/grid.cuh"
#include "cuda/mma.cuh"
#include "long_conv/cuda/spectral/constants.cuh"

namespace faltung::long_conv::cuda::spectral {

// Accumulators of a tile of 16 slots: c[0], c[1] slot g, columns 2t, 2t + 1; c[2], c[3] slot g + 8.
using Tile = float[4];

// What the next turn of a block reads, to L2: a thread per row of the images (a row is at most a line), a thread per
// line of the filter.
template <typename Element>
__device__ __forceinline__ void thread_prefetch_images(Tensor<Element const*> const& x, Shape const& shape,
                                                       std::int64_t c, std::int64_t group) {
  int const per_image = blockDim.x / images, image = threadIdx.x / per_image, row = threadIdx.x % per_image;
  std::int64_t const b = group * shape.images_per_filter + image;
  if (image < shape.images_per_filter && b < shape.batch && row < shape.rows.extent)
    thread_prefetch(x.data + b * x.batch + c * x.channel + row * x.row);
}

template <typename Element>
__device__ __forceinline__ void thread_prefetch_filter(Tensor<Element const*> const& k, Shape const& shape,
                                                       std::int64_t c, std::int64_t group) {
  constexpr int per_line = 128 / int(sizeof(Element));
  std::int64_t const b = group * shape.images_per_filter, at = threadIdx.x * per_line;
  if (k.row == shape.columns.filter && k.column == 1 && at < shape.rows.filter * k.row)
    thread_prefetch(k.data + b * k.batch + c * k.channel + at);
}

// Two warps, or one, that share an image.
template <int N>
__device__ __forceinline__ void image_barrier(int image) {
  if constexpr (Plan<N>::warps_per_image > 1)
    asm volatile("bar.sync %0, %1;" ::"r"(1 + image), "n"(32 * Plan<N>::warps_per_image) : "memory");
}

__device__ __forceinline__ std::uint32_t warp_max(std::uint32_t pair_of_magnitudes) {
#pragma unroll
  for (int other = 16; other; other /= 2)
    pair_of_magnitudes = __vmaxu2(pair_of_magnitudes, __shfl_xor_sync(~0u, pair_of_magnitudes, other));
  return max(pair_of_magnitudes & 0xffff, pair_of_magnitudes >> 16);
}

// 32 rows of an image as words of two columns: `near` those of the first half in a lane's order, `far` their mirror
// images, halves swapped.
template <int N>
struct Rows {
  static constexpr int words = N / 16;
  std::uint32_t near[4][words], far[4][words];
};

// `plain`: rows are whole and aligned, known when the kernel is compiled.
template <int N, bool plain, typename Element>
__device__ __forceinline__ void warp_load_rows(Rows<N>& rows, Tensor<Element const*> const& x, Shape const& shape,
                                               std::int64_t b, std::int64_t c, int first_row, bool present) {
  constexpr int words = Rows<N>::words;
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  Element const* const from = x.data + b * x.batch + c * x.channel;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    int const row = first_row + 8 * n + g;
    bool const inside = present && row < shape.rows.extent;
    if (plain || x.vectors) {
      using Vector = std::conditional_t<words == 4, uint4, uint2>;
      Vector near{}, far{};
      if (inside) {
        near = *reinterpret_cast<Vector const*>(from + row * x.row + 2 * words * t);
        far = *reinterpret_cast<Vector const*>(from + row * x.row + N - 2 * words * (t + 1));
      }
#pragma unroll
      for (int i = 0; i < words; ++i) {
        rows.near[n][i] = reinterpret_cast<std::uint32_t const*>(&near)[i];
        rows.far[n][i] = reinterpret_cast<std::uint32_t const*>(&far)[words - 1 - i];
      }
    } else {
      auto const element = [&](int column) -> std::uint32_t {
        return inside && column < shape.columns.extent
                   ? reinterpret_cast<unsigned short const&>(from[row * x.row + column * x.column])
                   : 0u;
      };
#pragma unroll
      for (int i = 0; i < words; ++i) {
        int const column = 2 * words * t + 2 * i;
        rows.near[n][i] = element(column) | element(column + 1) << 16;
        rows.far[n][i] = element(N - 2 - column) | element(N - 1 - column) << 16;
      }
    }
  }
}

template <int N>
__device__ __forceinline__ std::uint32_t warp_magnitude(Rows<N> const& rows) {
  std::uint32_t most = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < Rows<N>::words; ++i)
      most = __vmaxu2(most, __vmaxu2(rows.near[n][i] & 0x7fff7fffu, rows.far[n][i] & 0x7fff7fffu));
  return warp_max(most);
}

// Folds in place: near becomes x[i] + x[N-1-i], which meets the cosines, far x[i] - x[N-1-i], which meets the sines.
template <int N>
__device__ __forceinline__ void thread_fold(Rows<N>& rows, float scale) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < Rows<N>::words; ++i) {
      std::uint32_t const a = scaled_half_pair(rows.near[n][i], scale),
                          b = swap_halves(scaled_half_pair(rows.far[n][i], scale));
      rows.near[n][i] = half_add(a, b);
      rows.far[n][i] = half_subtract(a, b);
    }
}

// Re and im of the tile's slots for the warp's 32 rows: columns of the MMA are rows of the grid.
template <int N>
__device__ __forceinline__ void warp_transform_rows(Tile (&re)[4], Tile (&im)[4], Rows<N> const& rows,
                                                    InputConstants<N> const& constants, int tile) {
  int const lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < Plan<N>::input_steps; ++step) {
    uint4 const cosines = constants[0][tile][step][lane], sines = constants[1][tile][step][lane];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      warp_mma<__half>(re[n], cosines.x, cosines.y, cosines.z, cosines.w, rows.near[n][2 * step],
                       rows.near[n][2 * step + 1]);
      warp_mma<__half>(im[n], sines.x, sines.y, sines.z, sines.w, rows.far[n][2 * step], rows.far[n][2 * step + 1]);
    }
  }
}

// Where 16-byte chunk `chunk` of a filter row lies: rows of a quarter warp in different banks.
template <int N>
__device__ __forceinline__ int filter_chunk(int row, int chunk) {
  return chunk ^ (row % 2 * (N == 64 ? 1 : 4));
}

// A filter by lags to shared memory, and the largest magnitude of the warp's taps to `maxima`.
template <int N, typename Element>
__device__ __forceinline__ void block_stage_filter(std::uint32_t* filter, std::uint32_t* maxima, Element const* k,
                                                   Tensor<Element const*> const& strides, Shape const& shape) {
  using P = Plan<N>;
  constexpr int per_row = 2 * N / 32, rows_at_once = 16 / per_row;
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto* const to = reinterpret_cast<unsigned short*>(filter);
  std::uint32_t most = 0;
  std::int64_t column_offset[per_row];
  int place[per_row];  // of a lag in its half of the row; a warp's rows are all even or all odd
  bool live[per_row];
#pragma unroll
  for (int i = 0; i < per_row; ++i) {
    int const lag = lane + 32 * i - (N - 1), element = lag > 0 ? lag : N - lag;
    std::int64_t const tap = shape.columns.tap(lag);
    live[i] = tap >= 0;
    column_offset[i] = tap * strides.column;
    place[i] = filter_chunk<N>(warp, element / 8) * 8 + element % 8;
  }
  LagAxis const& rows = shape.rows;
  // Where row lags have their taps in a row, pointers step from one to the next.
  Element const* at[per_row];
  std::int64_t const row_step = rows.sign * P::warps * strides.row;
#pragma unroll
  for (int i = 0; i < per_row; ++i)
    at[i] = k + column_offset[i] + (rows.centre + rows.sign * (warp - (N - 1))) * strides.row;
  for (int start = warp; start < 2 * N - 1; start += rows_at_once * P::warps) {
    unsigned short value[rows_at_once][per_row];
    if (!rows.circular) {
#pragma unroll
      for (int j = 0; j < rows_at_once; ++j) {
        int const lag = start + j * P::warps - (N - 1);
        bool const inside = lag >= rows.low && lag <= rows.high;
#pragma unroll
        for (int i = 0; i < per_row; ++i, at[i - 1] += row_step)
          value[j][i] = inside && live[i] ? *reinterpret_cast<unsigned short const*>(at[i]) : 0;
      }
    } else {
#pragma unroll
      for (int j = 0; j < rows_at_once; ++j) {
        int const row = start + j * P::warps;
        std::int64_t const tap = row < 2 * N - 1 ? rows.tap(row - (N - 1)) : -1;
        Element const* const from = k + tap * strides.row;
#pragma unroll
        for (int i = 0; i < per_row; ++i)
          value[j][i] = tap >= 0 && live[i] ? *reinterpret_cast<unsigned short const*>(from + column_offset[i]) : 0;
      }
    }
#pragma unroll
    for (int j = 0; j < rows_at_once; ++j) {
      int const row = start + j * P::warps;
      if (row >= 2 * N - 1) continue;
#pragma unroll
      for (int i = 0; i < per_row; ++i) {
        bool const last = i == per_row - 1, middle = i == per_row / 2 - 1;
        if (!last || lane < 31) to[row * 2 * N + place[i]] = value[j][i];  // position 2N - 1 is no lag
        if (middle && lane == 31) to[row * 2 * N + filter_chunk<N>(warp, 0) * 8] = value[j][i];  // lag 0 meets itself
        most = max(most, std::uint32_t(value[j][i] & 0x7fff));
      }
    }
  }
  most = warp_max(most);
  if (lane == 0) maxima[warp] = most;
}

// Filter spectra carry this factor: 64 products of the largest spectra then stay below the largest half.
inline constexpr int filter_headroom = -7;

// The spectrum of 8 row lags per warp, [slot][row lag] words of re and im.
template <int N>
__device__ __forceinline__ void warp_transform_filter(std::uint32_t* spectrum, std::uint32_t const* filter,
                                                      FilterConstants<N> const& constants, int exponent) {
  using P = Plan<N>;
  constexpr int words = N / 8;  // of a lane: N / 4 column lags
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = threadIdx.x / 32 * 8 + g;
  float const scale = power_of_two(exponent);
  std::uint32_t even[words], odd[words];
#pragma unroll
  for (int i = 0; i < words; i += 4) {
    int const chunk = t * (words / 4) + i / 4;
    uint4 positive{}, negative{};
    if (row < 2 * N - 1) {
      positive = *reinterpret_cast<uint4 const*>(filter + row * N + 4 * filter_chunk<N>(row, chunk));
      negative = *reinterpret_cast<uint4 const*>(filter + row * N + 4 * filter_chunk<N>(row, chunk + N / 8));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t const a = scaled_half_pair(reinterpret_cast<std::uint32_t const*>(&positive)[j], scale);
      std::uint32_t const b = scaled_half_pair(reinterpret_cast<std::uint32_t const*>(&negative)[j], scale);
      even[i + j] = half_add(a, b);
      odd[i + j] = half_subtract(a, b);
    }
  }
  constexpr float headroom = 1.f / (1 << -filter_headroom);
#pragma unroll 1
  for (int tile = 0; tile < P::slot_tiles; ++tile) {
    Tile re = {}, im = {};
#pragma unroll
    for (int step = 0; step < P::filter_steps; ++step) {
      uint4 const cosines = constants[0][tile][step][lane], sines = constants[1][tile][step][lane];
      warp_mma<__half>(re, cosines.x, cosines.y, cosines.z, cosines.w, even[2 * step], even[2 * step + 1]);
      warp_mma<__half>(im, sines.x, sines.y, sines.z, sines.w, odd[2 * step], odd[2 * step + 1]);
    }
#pragma unroll
    for (int q = 0; q < 2; ++q)
      *reinterpret_cast<uint2*>(spectrum + (16 * tile + g + 8 * q) * P::filter_stride + threadIdx.x / 32 * 8 + 2 * t) =
          uint2{half_pair(re[2 * q] * headroom, im[2 * q] * headroom),
                half_pair(re[2 * q + 1] * headroom, im[2 * q + 1] * headroom)};
  }
}

}  // namespace faltung::long_conv::cuda::spectral
