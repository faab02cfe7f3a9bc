// From grid to frequencies: the rows of images, and the rows of a filter by lags.
#pragma once
#include "cuda/element.cuh"
#include "cuda/grid.cuh"
#include "cuda/mma.cuh"
#include "long_conv/cuda/spectral/constants.cuh"

namespace faltung::long_conv::cuda::spectral {

// Accumulators of a tile of 16 slots: c[0], c[1] slot g, columns 2t, 2t + 1; c[2], c[3] slot g + 8.
using Tile = float[4];

// What a later turn of a block reads, to L2: a thread per row of the images from b on (a row is at most a line), a
// thread per line of the filter.
template <typename Element>
__device__ __forceinline__ void thread_prefetch_images(Tensor<Element const*> const& x, Shape const& shape,
                                                       std::int64_t b, std::int64_t c) {
  int const per_image = blockDim.x / images, image = threadIdx.x / per_image, row = threadIdx.x % per_image;
  if (image < shape.images_per_filter && b + image < shape.batch && row < shape.rows.extent)
    thread_prefetch(x.data + (b + image) * x.batch + c * x.channel + row * x.row);
}

template <typename Element>
__device__ __forceinline__ void thread_prefetch_filter(Tensor<Element const*> const& k, Shape const& shape,
                                                       std::int64_t b, std::int64_t c) {
  constexpr int per_line = 128 / int(sizeof(Element));
  std::int64_t const at = threadIdx.x * per_line;
  if (k.row == shape.columns.filter && k.column == 1 && at < shape.rows.filter * k.row)
    thread_prefetch(k.data + b * k.batch + c * k.channel + at);
}

// Two values as halves, and what these lack.
struct SplitWord {
  std::uint32_t high, low;
};
__device__ __forceinline__ SplitWord split(float first, float second) {
  std::uint32_t const high = half_pair(first, second);
  float2 const rounded = __half22float2(reinterpret_cast<__half2 const&>(high));
  return {high, half_pair(first - rounded.x, second - rounded.y)};
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
                                               std::int64_t b, std::int64_t c, int first_row) {
  constexpr int words = Rows<N>::words;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  Element const* const from = x.data + b * x.batch + c * x.channel;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    int const row = first_row + 8 * n + g;
    bool const inside = row < shape.rows.extent;
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

template <int N, typename Element>
__device__ __forceinline__ std::uint32_t warp_magnitude(Rows<N> const& rows) {
  std::uint32_t most = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < Rows<N>::words; ++i)
      most = larger_magnitudes<Element>(larger_magnitudes<Element>(most, rows.near[n][i]), rows.far[n][i]);
  return warp_max(most);
}

// What meets the constants. Where these have one plane, rows are folded in place: near becomes x[i] + x[N-1-i], which
// meets the cosines, far x[i] - x[N-1-i], which meets the sines. Where they have two, the rounding of such sums would
// weigh as much as that of the constants: near and far stay apart.
template <int N, typename Element>
__device__ __forceinline__ void thread_fold(Rows<N>& rows, int exponent) {
  HalfScale<Element> const scaled(exponent);
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < Rows<N>::words; ++i) {
      std::uint32_t const a = scaled(rows.near[n][i]), b = swap_halves(scaled(rows.far[n][i]));
      rows.near[n][i] = planes<Element> == 1 ? half_add(a, b) : a;
      rows.far[n][i] = planes<Element> == 1 ? half_subtract(a, b) : b;
    }
}

inline constexpr std::uint32_t sign_of_even = 0x00008000, sign_of_both = 0x80008000;

// What the mirrored slots want: even columns negated.
template <int N>
__device__ __forceinline__ void thread_negate_even(Rows<N>& rows) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < Rows<N>::words; ++i) {
      rows.near[n][i] ^= sign_of_even;
      rows.far[n][i] ^= sign_of_even;
    }
}

// Re and im of the tile's slots for the warp's 32 rows: columns of the MMA are rows of the grid. `mirrored`: of the
// mirror images of the tile's slots, the rows having been through thread_negate_even.
template <int N, typename Element>
__device__ __forceinline__ void warp_transform_rows(Tile (&re)[4], Tile (&im)[4], Rows<N> const& rows,
                                                    InputConstants<N, Element> const& constants, int tile,
                                                    bool mirrored) {
  int const lane = thread_lane();
#pragma unroll
  for (int step = 0; step < Plan<N>::input_steps; ++step) {
    uint4 const cosines = constants.load(0, mirrored, tile, step, lane),
                sines = constants.load(0, !mirrored, tile, step, lane);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      std::uint32_t const *const near = rows.near[n] + 2 * step, *const far = rows.far[n] + 2 * step;
      warp_mma<__half>(re[n], cosines.x, cosines.y, cosines.z, cosines.w, near[0], near[1]);
      if constexpr (planes<Element> == 1) {
        warp_mma<__half>(im[n], sines.x, sines.y, sines.z, sines.w, far[0], far[1]);
      } else {
        warp_mma<__half>(im[n], sines.x, sines.y, sines.z, sines.w, near[0], near[1]);
        warp_mma<__half>(re[n], cosines.x, cosines.y, cosines.z, cosines.w, far[0], far[1]);
        warp_mma<__half>(im[n], sines.x, sines.y, sines.z, sines.w, far[0] ^ sign_of_both, far[1] ^ sign_of_both);
      }
    }
    if constexpr (planes<Element> == 2) {
      uint4 const less_cosines = constants.load(1, mirrored, tile, step, lane),
                  less_sines = constants.load(1, !mirrored, tile, step, lane);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        std::uint32_t const *const near = rows.near[n] + 2 * step, *const far = rows.far[n] + 2 * step;
        warp_mma<__half>(re[n], less_cosines.x, less_cosines.y, less_cosines.z, less_cosines.w,
                         half_add(near[0], far[0]), half_add(near[1], far[1]));
        warp_mma<__half>(im[n], less_sines.x, less_sines.y, less_sines.z, less_sines.w, half_subtract(near[0], far[0]),
                         half_subtract(near[1], far[1]));
      }
    }
  }
}

// Where 16-byte chunk `chunk` of a filter row lies: rows of a quarter warp in different banks.
template <int N>
__host__ __device__ constexpr int filter_chunk(int row, int chunk) {
  return chunk ^ (row % 2 * (N == 64 ? 1 : 4));
}

// Which taps of a row of a filter a lane stages: lanes go along the taps, whichever way the lags go. Of 2N positions
// the last is no lag: the last lane takes lag 0 again, which has a place in either half of a staged row.
template <int N>
struct RowTaps {
  static constexpr int count = 2 * N / 32;
  int lag[count], place[count];
  bool live[count];
  int last;  // from the lane's first tap to its last

  __device__ __forceinline__ explicit RowTaps(LagAxis const& columns) {
    int const lane = thread_lane();
#pragma unroll
    for (int i = 0; i < count; ++i) {
      bool const again = i == count - 1 && lane == 31;
      lag[i] = again ? 0 : columns.sign * (lane + 32 * i - (N - 1));
      place[i] = lag_position<N>(abs(lag[i])) + (lag[i] > 0 || again ? 0 : N);
      live[i] = columns.tap(lag[i]) >= 0;
    }
    last = lane == 31 ? N - 1 - lane : 32 * (count - 1);
  }
};

// visit(j, values) with a lane's taps of the row lags that the warp will transform, j < 8.
template <int N, typename Filter, typename Visit>
__device__ __forceinline__ void warp_visit_filter(Filter const* k, Tensor<Filter const*> const& strides,
                                                  Shape const& shape, RowTaps<N> const& taps, Visit const& visit) {
  using P = Plan<N>;
  constexpr int per_row = RowTaps<N>::count, at_once = 16 / per_row;
  int const lane = thread_lane(), first = thread_warp() * P::rows_per_warp;
  LagAxis const &rows = shape.rows, &columns = shape.columns;
  if (!rows.circular && !columns.circular && strides.column == 1) {
    k += (rows.centre + rows.sign * (first - (N - 1))) * strides.row + columns.centre - (N - 1) + lane;
    std::int64_t const step = rows.sign * strides.row;
#pragma unroll
    for (int start = 0; start < P::rows_per_warp; start += at_once) {
      Filter value[at_once][per_row] = {};
#pragma unroll
      for (int j = 0; j < at_once; ++j, k += step) {
        int const lag = first + start + j - (N - 1);
        bool const inside = lag >= rows.low && lag <= rows.high;
#pragma unroll
        for (int i = 0; i < per_row; ++i)
          if (inside && taps.live[i]) value[j][i] = k[i == per_row - 1 ? taps.last : 32 * i];
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j) visit(start + j, value[j]);
    }
  } else {
#pragma unroll 1
    for (int start = 0; start < P::rows_per_warp; start += 2)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        Filter value[per_row] = {};
        int const row = first + start + j;
        std::int64_t const tap = row < 2 * N - 1 ? rows.tap(row - (N - 1)) : -1;
#pragma unroll
        for (int i = 0; i < per_row; ++i)
          if (tap >= 0 && taps.live[i]) value[i] = k[tap * strides.row + columns.tap(taps.lag[i]) * strides.column];
        visit(start + j, value);
      }
  }
}

// Where they go in shared memory.
template <int N>
class StagedRows {
 public:
  __device__ __forceinline__ StagedRows(std::uint32_t* filter, RowTaps<N> const& taps) {
#pragma unroll
    for (int i = 0; i < RowTaps<N>::count; ++i)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd)
        to_[odd][i] = reinterpret_cast<unsigned short*>(filter) + thread_warp() * Plan<N>::rows_per_warp * 2 * N +
                      filter_chunk<N>(odd, taps.place[i] / 8) * 8 + taps.place[i] % 8;
  }
  __device__ __forceinline__ void store(int j, int i, unsigned short bits) const { to_[j % 2][i][j * 2 * N] = bits; }

 private:
  unsigned short* to_[2][RowTaps<N>::count];  // in even and in odd rows
};

// The row lags of a filter that the warp will transform, to shared memory, and the largest magnitude of their taps to
// `maximum`.
template <int N, typename Element>
__device__ __forceinline__ void warp_stage_filter(std::uint32_t* filter, std::uint32_t* maximum, Element const* k,
                                                  Tensor<Element const*> const& strides, Shape const& shape) {
  RowTaps<N> const taps(shape.columns);
  StagedRows<N> const rows(filter, taps);
  std::uint32_t most = 0;
  warp_visit_filter<N>(k, strides, shape, taps, [&](int j, Element const(&value)[RowTaps<N>::count]) {
#pragma unroll
    for (int i = 0; i < RowTaps<N>::count; ++i) {
      rows.store(j, i, reinterpret_cast<unsigned short const&>(value[i]));
      if (i % 2)
        most = larger_magnitudes<Element>(most, reinterpret_cast<unsigned short const&>(value[i - 1]) |
                                                    std::uint32_t(reinterpret_cast<unsigned short const&>(value[i]))
                                                        << 16);
    }
  });
  most = warp_max(most);
  if (thread_lane() == 0) *maximum = most;
}

// The same for fp32 filters of 16-bit images, in two steps: they become halves under their power of two as they are
// staged. `maximum` gets the upper halves of magnitudes.
template <int N>
__device__ __forceinline__ void warp_measure_filter(std::uint32_t* maximum, float const* k,
                                                    Tensor<float const*> const& strides, Shape const& shape) {
  std::uint32_t most = 0;
  warp_visit_filter<N>(k, strides, shape, RowTaps<N>(shape.columns), [&](int, float const(&value)[RowTaps<N>::count]) {
#pragma unroll
    for (int i = 0; i < RowTaps<N>::count; ++i) most = max(most, __float_as_uint(value[i]) & 0x7fffffffu);
  });
  most = warp_max(most >> 16);
  if (thread_lane() == 0) *maximum = most;
}
template <int N>
__device__ __forceinline__ void warp_stage_wide_filter(std::uint32_t* filter, int exponent, float const* k,
                                                       Tensor<float const*> const& strides, Shape const& shape) {
  RowTaps<N> const taps(shape.columns);
  StagedRows<N> const rows(filter, taps);
  float const scale = power_of_two(exponent);
  warp_visit_filter<N>(k, strides, shape, taps, [&](int j, float const(&value)[RowTaps<N>::count]) {
#pragma unroll
    for (int i = 0; i < RowTaps<N>::count; ++i) rows.store(j, i, __half_as_ushort(__float2half(value[i] * scale)));
  });
}

// Filter spectra carry this factor: 64 products of the largest spectra then stay below the largest half.
inline constexpr int filter_headroom = -7;

// A lane's column lags of one row lag, N / 4 from (N / 4) t on and their mirror images, in the order of lag_at.
template <int N>
struct LaneTaps {
  static constexpr int words = N / 8;
  std::uint32_t positive[words], negative[words];
};

// The spectrum of 8 row lags per warp, [slot][row lag] words of re and im, from taps of type `Staged`.
template <int N, typename Element, typename Staged>
__device__ __forceinline__ void warp_transform_taps(std::uint32_t* spectrum, LowSlots<N, Element>& low,
                                                    LaneTaps<N>& taps, FilterConstants<N, Element> const& constants,
                                                    int exponent) {
  using P = Plan<N>;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4, row = thread_warp() * P::rows_per_warp + g;
  HalfScale<Staged> const scaled(exponent);
  auto &positive = taps.positive, &negative = taps.negative;
#pragma unroll
  for (int i = 0; i < LaneTaps<N>::words; ++i) {
    positive[i] = scaled(positive[i]);
    negative[i] = scaled(negative[i]);
    if constexpr (planes<Element> == 1) {  // folded as in thread_fold
      std::uint32_t const sum = half_add(positive[i], negative[i]);
      negative[i] = half_subtract(positive[i], negative[i]);
      positive[i] = sum;
    }
  }
  constexpr float headroom = 1.f / (1 << -filter_headroom);
#pragma unroll 1
  for (int tile = 0; tile < P::direct_tiles; ++tile) {
    Tile re[2] = {}, im[2] = {};  // of even lags, of odd ones
#pragma unroll
    for (int step = 0; step < P::filter_steps; ++step) {
      int const odd = step / (P::filter_steps / 2);
      uint4 const c = constants.load(0, 0, tile, step, lane), s = constants.load(0, 1, tile, step, lane);
      std::uint32_t const *const a = positive + 2 * step, *const b = negative + 2 * step;
      warp_mma<__half>(re[odd], c.x, c.y, c.z, c.w, a[0], a[1]);
      if constexpr (planes<Element> == 1) {
        warp_mma<__half>(im[odd], s.x, s.y, s.z, s.w, b[0], b[1]);
      } else {
        uint4 const less_c = constants.load(1, 0, tile, step, lane), less_s = constants.load(1, 1, tile, step, lane);
        warp_mma<__half>(im[odd], s.x, s.y, s.z, s.w, a[0], a[1]);
        warp_mma<__half>(re[odd], c.x, c.y, c.z, c.w, b[0], b[1]);
        warp_mma<__half>(im[odd], s.x, s.y, s.z, s.w, b[0] ^ sign_of_both, b[1] ^ sign_of_both);
        warp_mma<__half>(re[odd], less_c.x, less_c.y, less_c.z, less_c.w, half_add(a[0], b[0]), half_add(a[1], b[1]));
        warp_mma<__half>(im[odd], less_s.x, less_s.y, less_s.z, less_s.w, half_subtract(a[0], b[0]),
                         half_subtract(a[1], b[1]));
      }
    }
    std::uint32_t* const to = spectrum + (16 * tile + g) * P::filter_stride + row - g + 2 * t;
#pragma unroll
    for (int mirrored = 0; mirrored < 2; ++mirrored)
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        SplitWord word[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float const even_re = re[0][2 * q + e], odd_re = re[1][2 * q + e], even_im = im[0][2 * q + e],
                      odd_im = im[1][2 * q + e];
          word[e] = mirrored ? split((even_re - odd_re) * headroom, (odd_im - even_im) * headroom)
                             : split((even_re + odd_re) * headroom, (odd_im + even_im) * headroom);
        }
        *reinterpret_cast<uint2*>(to + (mirrored * (N / 2) + 8 * q) * P::filter_stride) =
            uint2{word[0].high, word[1].high};
        if constexpr (std::is_same_v<Element, __half>)
          if (tile == 0 && !mirrored && q == 0 && g < low_slots)
            *reinterpret_cast<uint2*>(low.filter_spectrum + g * P::filter_stride + row - g + 2 * t) =
                uint2{word[0].low, word[1].low};
      }
  }
}

}  // namespace faltung::long_conv::cuda::spectral
