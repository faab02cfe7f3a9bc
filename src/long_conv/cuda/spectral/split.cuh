// The steps of the spectral method with fp32 operands in two halves, hi + lo: three products each, without lo lo. All
// under powers of two that keep spectra below 2^15, so that a half resolves 2^-25 of what it lacks; no sum is longer
// than six MMAs. Layouts are those of the 16-bit kernels, plane by plane.
#pragma once
#include "long_conv/cuda/spectral/product.cuh"
#include "long_conv/cuda/spectral/split_plan.hpp"

namespace faltung::long_conv::cuda::spectral {

inline constexpr int split_N = 32;

// What brings the largest magnitudes of an image, or of a filter, to 2^9 or 2^8: 32 columns then stay below 2^15, and
// 63 lags likewise.
inline constexpr int split_image_magnitude = 9, split_filter_magnitude = 8;
__device__ __forceinline__ int split_exponent(std::uint32_t magnitude, int target) {
  return min(127, max(-126, target + 127 - int(magnitude >> 23)));
}

// What the products carry, 32 rows of the largest spectra, and their sums for dk, over eight images of 32 rows.
inline constexpr int split_product_headroom = -20, split_gradient_headroom = -23;

__device__ __forceinline__ std::uint32_t warp_largest(std::uint32_t magnitude) {
#pragma unroll
  for (int other = 16; other; other /= 2) magnitude = max(magnitude, __shfl_xor_sync(~0u, magnitude, other));
  return magnitude;
}

// c += a b without the larger term, and that: the tensor core truncates its sums, so of several products the small
// terms come first, and no sum has two of the larger.
__device__ __forceinline__ void warp_cross_mma(Tile& c, uint4 const& a_high, uint4 const& a_low, SplitWord b0,
                                               SplitWord b1) {
  warp_mma<__half>(c, a_high.x, a_high.y, a_high.z, a_high.w, b0.low, b1.low);
  warp_mma<__half>(c, a_low.x, a_low.y, a_low.z, a_low.w, b0.high, b1.high);
}
__device__ __forceinline__ void warp_high_mma(Tile& c, uint4 const& a_high, SplitWord b0, SplitWord b1) {
  warp_mma<__half>(c, a_high.x, a_high.y, a_high.z, a_high.w, b0.high, b1.high);
}
__device__ __forceinline__ void thread_add(Tile& c, Tile const& d) {
#pragma unroll
  for (int i = 0; i < 4; ++i) c[i] += d[i];
}
__device__ __forceinline__ void warp_split_mma(Tile& c, uint4 const& a_high, uint4 const& a_low, SplitWord b0,
                                               SplitWord b1) {
  warp_cross_mma(c, a_high, a_low, b0, b1);
  warp_high_mma(c, a_high, b0, b1);
}

// An image, folded: a lane has 4 columns of either half of rows 8 n + g.
struct SplitRows {
  SplitWord sum[4][2], difference[4][2];
};

// `values`: near columns 4t .. 4t + 3 and far columns 28 - 4t .. 31 - 4t of each row.
struct ImageValues {
  float near[4][4], far[4][4];
};

template <bool plain>
__device__ __forceinline__ void warp_load_image(ImageValues& values, Tensor<float const*> const& x, Shape const& shape,
                                                std::int64_t b, std::int64_t c) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  float const* const from = x.data + b * x.batch + c * x.channel;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    int const row = 8 * n + g;
    bool const inside = row < shape.rows.extent;
    float4 near{}, far{};
    if (plain || x.vectors) {
      if (inside) {
        near = *reinterpret_cast<float4 const*>(from + row * x.row + 4 * t);
        far = *reinterpret_cast<float4 const*>(from + row * x.row + split_N - 4 * (t + 1));
      }
    } else {
      auto const element = [&](int column) {
        return inside && column < shape.columns.extent ? from[row * x.row + column * x.column] : 0.f;
      };
      near = {element(4 * t), element(4 * t + 1), element(4 * t + 2), element(4 * t + 3)};
      far = {element(28 - 4 * t), element(29 - 4 * t), element(30 - 4 * t), element(31 - 4 * t)};
    }
    values.near[n][0] = near.x, values.near[n][1] = near.y, values.near[n][2] = near.z, values.near[n][3] = near.w;
    values.far[n][0] = far.x, values.far[n][1] = far.y, values.far[n][2] = far.z, values.far[n][3] = far.w;
  }
}

__device__ __forceinline__ std::uint32_t warp_magnitude(ImageValues const& values) {
  std::uint32_t most = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      most = max(
          most, max(__float_as_uint(values.near[n][i]) & 0x7fffffffu, __float_as_uint(values.far[n][i]) & 0x7fffffffu));
  return warp_largest(most);
}

__device__ __forceinline__ void thread_fold(SplitRows& rows, ImageValues const& values, float scale) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float const a = values.near[n][2 * i] * scale, b = values.near[n][2 * i + 1] * scale;
      float const mirror_of_a = values.far[n][3 - 2 * i] * scale, mirror_of_b = values.far[n][2 - 2 * i] * scale;
      rows.sum[n][i] = split(a + mirror_of_a, b + mirror_of_b);
      rows.difference[n][i] = split(a - mirror_of_a, b - mirror_of_b);
    }
}

__device__ __forceinline__ void thread_negate_even(SplitRows& rows) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.sum[n][i].high ^= sign_of_even;
      rows.sum[n][i].low ^= sign_of_even;
      rows.difference[n][i].high ^= sign_of_even;
      rows.difference[n][i].low ^= sign_of_even;
    }
}

// Of the first 16 slots, or of their mirror images.
__device__ __forceinline__ void warp_transform_rows(Tile (&re)[4], Tile (&im)[4], SplitRows const& rows,
                                                    InputConstants<split_N, float> const& constants, bool mirrored) {
  int const lane = thread_lane();
  uint4 const cosines = constants.load(0, mirrored, 0, 0, lane), less_cosines = constants.load(1, mirrored, 0, 0, lane);
#pragma unroll
  for (int n = 0; n < 4; ++n) warp_split_mma(re[n], cosines, less_cosines, rows.sum[n][0], rows.sum[n][1]);
  uint4 const sines = constants.load(0, !mirrored, 0, 0, lane), less_sines = constants.load(1, !mirrored, 0, 0, lane);
#pragma unroll
  for (int n = 0; n < 4; ++n) warp_split_mma(im[n], sines, less_sines, rows.difference[n][0], rows.difference[n][1]);
}

template <int slots_and_stride>
using SplitPlanes = std::uint32_t[2][slots_and_stride];

__device__ __forceinline__ void warp_store_spectrum(SplitPlanes<split_N * Plan<split_N>::slot_stride>& spectrum,
                                                    Tile const (&re)[4], Tile const (&im)[4], int tile, int image) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    int const to = image_word<split_N>(16 * tile + 8 * q + g, image, 0) + 4 * t;
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      SplitWord const words[4] = {split(re[n][2 * q], re[n][2 * q + 1]), split(im[n][2 * q], im[n][2 * q + 1]),
                                  split(re[n + 1][2 * q], re[n + 1][2 * q + 1]),
                                  split(im[n + 1][2 * q], im[n + 1][2 * q + 1])};
      *reinterpret_cast<uint4*>(spectrum[0] + to + n / 2 * 128) =
          uint4{words[0].high, words[1].high, words[2].high, words[3].high};
      *reinterpret_cast<uint4*>(spectrum[1] + to + n / 2 * 128) =
          uint4{words[0].low, words[1].low, words[2].low, words[3].low};
    }
  }
}

// Rows of a quarter warp in different banks.
__device__ __forceinline__ int split_filter_word(int row, int position) { return position ^ (row % 2 * 4); }

// As warp_stage_filter of 16 bits.
__device__ __forceinline__ void warp_stage_filter(float* filter, std::uint32_t* maximum, float const* k,
                                                  Tensor<float const*> const& strides, Shape const& shape) {
  using P = Plan<split_N>;
  constexpr int N = split_N, per_row = RowTaps<N>::count;
  int const lane = thread_lane(), first = thread_warp() * P::rows_per_warp;
  LagAxis const &rows = shape.rows, &columns = shape.columns;
  RowTaps<N> const taps(columns);
  std::int64_t offset[per_row];
#pragma unroll
  for (int i = 0; i < per_row; ++i) offset[i] = columns.tap(taps.lag[i]) * strides.column;
  float value[P::rows_per_warp][per_row] = {};
#pragma unroll
  for (int j = 0; j < P::rows_per_warp; ++j) {
    std::int64_t const tap = first + j < 2 * N - 1 ? rows.tap(first + j - (N - 1)) : -1;
    if (tap >= 0)
#pragma unroll
      for (int i = 0; i < per_row; ++i)
        if (taps.live[i]) value[j][i] = k[tap * strides.row + offset[i]];
  }
  std::uint32_t most = 0;
#pragma unroll
  for (int j = 0; j < P::rows_per_warp; ++j)
#pragma unroll
    for (int i = 0; i < per_row; ++i) {
      filter[(first + j) * 2 * N + split_filter_word(j, taps.place[i])] = value[j][i];
      most = max(most, __float_as_uint(value[j][i]) & 0x7fffffffu);
    }
  most = warp_largest(most);
  if (lane == 0) *maximum = most;
}

__device__ __forceinline__ void warp_transform_filter(SplitPlanes<split_N * Plan<split_N>::filter_stride>& spectrum,
                                                      float const* filter,
                                                      FilterConstants<split_N, float> const& constants, int exponent) {
  using P = Plan<split_N>;
  constexpr int N = split_N;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4, row = thread_warp() * P::rows_per_warp + g;
  float const scale = power_of_two(exponent);
  SplitWord sum[4], difference[4];  // of even lags, then of odd ones
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float4 const a = *reinterpret_cast<float4 const*>(filter + row * 2 * N + split_filter_word(row, 8 * t + 4 * i)),
                 b = *reinterpret_cast<float4 const*>(filter + row * 2 * N + split_filter_word(row, N + 8 * t + 4 * i));
    sum[2 * i] = split((a.x + b.x) * scale, (a.y + b.y) * scale);
    sum[2 * i + 1] = split((a.z + b.z) * scale, (a.w + b.w) * scale);
    difference[2 * i] = split((a.x - b.x) * scale, (a.y - b.y) * scale);
    difference[2 * i + 1] = split((a.z - b.z) * scale, (a.w - b.w) * scale);
  }
  Tile re[2] = {}, im[2] = {};
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    warp_split_mma(re[odd], constants.load(0, 0, 0, odd, lane), constants.load(1, 0, 0, odd, lane), sum[2 * odd],
                   sum[2 * odd + 1]);
    warp_split_mma(im[odd], constants.load(0, 1, 0, odd, lane), constants.load(1, 1, 0, odd, lane), difference[2 * odd],
                   difference[2 * odd + 1]);
  }
#pragma unroll
  for (int mirrored = 0; mirrored < 2; ++mirrored)
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      SplitWord word[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float const even_re = re[0][2 * q + e], odd_re = re[1][2 * q + e], even_im = im[0][2 * q + e],
                    odd_im = im[1][2 * q + e];
        word[e] = mirrored ? split(even_re - odd_re, odd_im - even_im) : split(even_re + odd_re, odd_im + even_im);
      }
      int const to = (mirrored * (N / 2) + 8 * q + g) * P::filter_stride + row - g + 2 * t;
      *reinterpret_cast<uint2*>(spectrum[0] + to) = uint2{word[0].high, word[1].high};
      *reinterpret_cast<uint2*>(spectrum[1] + to) = uint2{word[0].low, word[1].low};
    }
}

// As warp_multiply_slots of 16 bits.
__device__ __forceinline__ void warp_multiply_slots(
    SplitPlanes<split_N * Plan<split_N>::slot_stride>& spectrum,
    SplitPlanes<split_N * Plan<split_N>::filter_stride> const& filter_spectrum, int pair) {
  using P = Plan<split_N>;
  constexpr int N = split_N, tiles = N / 16, words = 4 * tiles - 1;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  SplitWord kept[P::row_tiles][2];
#pragma unroll
  for (int second = 0; second < 2; ++second) {
    int const slot = 2 * pair + second;
    uint4 x[2][tiles];
    SplitWord re[words], im[words];
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
#pragma unroll
      for (int in = 0; in < tiles; ++in)
        x[plane][in] = *reinterpret_cast<uint4 const*>(spectrum[plane] + image_word<N>(slot, g, in) + 4 * t);
      std::uint32_t const* const lags = filter_spectrum[plane] + slot * P::filter_stride + N - 1 + g - 2 * t;
#pragma unroll
      for (int z = 0; z < words; ++z) {
        std::uint32_t const first = lags[8 * (z - (2 * tiles - 1))], before = lags[8 * (z - (2 * tiles - 1)) - 1];
        (plane ? re[z].low : re[z].high) = low_halves(first, before);
        (plane ? im[z].low : im[z].high) = high_halves(first, before);
      }
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < P::row_tiles; ++n) {
      Tile by_re = {}, by_im = {};
#pragma unroll
      for (int in = 0; in < tiles; ++in) {
        int const z = n - 2 * in + 2 * tiles - 1;
        warp_cross_mma(by_re, x[0][in], x[1][in], re[z], re[z - 1]);
        warp_cross_mma(by_im, x[0][in], x[1][in], im[z], im[z - 1]);
      }
#pragma unroll
      for (int in = 0; in < tiles; ++in) {
        int const z = n - 2 * in + 2 * tiles - 1;
        Tile high_re = {}, high_im = {};
        warp_high_mma(high_re, x[0][in], re[z], re[z - 1]);
        warp_high_mma(high_im, x[0][in], im[z], im[z - 1]);
        thread_add(by_re, high_re);
        thread_add(by_im, high_im);
      }
      constexpr float headroom = 1.f / (1 << -split_product_headroom);
      SplitWord const even = split((by_re[0] - by_im[2]) * headroom, (by_re[2] + by_im[0]) * headroom);
      SplitWord const odd = split((by_re[1] - by_im[3]) * headroom, (by_re[3] + by_im[1]) * headroom);
      if (second == 0) {
        kept[n][0] = even;
        kept[n][1] = odd;
        continue;
      }
      int const word = (n % 2 * 8 + 2 * t) ^ product_swizzle(slot, g);
      int const re_at = image_word<N>(2 * pair, g, n / 2) + word, im_at = image_word<N>(2 * pair + 1, g, n / 2) + word;
      *reinterpret_cast<uint2*>(spectrum[0] + re_at) =
          uint2{low_halves(kept[n][0].high, even.high), low_halves(kept[n][1].high, odd.high)};
      *reinterpret_cast<uint2*>(spectrum[1] + re_at) =
          uint2{low_halves(kept[n][0].low, even.low), low_halves(kept[n][1].low, odd.low)};
      *reinterpret_cast<uint2*>(spectrum[0] + im_at) =
          uint2{high_halves(kept[n][0].high, even.high), high_halves(kept[n][1].high, odd.high)};
      *reinterpret_cast<uint2*>(spectrum[1] + im_at) =
          uint2{high_halves(kept[n][0].low, even.low), high_halves(kept[n][1].low, odd.low)};
    }
  }
}

__device__ __forceinline__ void warp_invert_rows(HalfGrid<split_N>& sums,
                                                 SplitPlanes<split_N * Plan<split_N>::slot_stride> const& spectrum,
                                                 OutputConstants<split_N, float> const& constants, int image) {
  constexpr int N = split_N;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  std::uint32_t const even_column = g % 2 ? 0 : sign_of_both;
  int const swizzle = product_swizzle(2 * t, image);
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    auto& tiles = part ? sums.sines : sums.cosines;
    uint4 a_high[N / 16][2], b_high[N / 16];
#pragma unroll
    for (int step = 0; step < N / 16; ++step) {
      bool const mirrored = step >= N / 32;
      auto const signed_constants = [&](int plane) {
        uint4 const b = constants.load(plane, part ^ mirrored, 0, 0, lane);
        std::uint32_t const sign = mirrored ? even_column : 0;
        return uint4{b.x ^ sign, b.y ^ sign, b.z ^ sign, b.w ^ sign};
      };
      b_high[step] = signed_constants(0);
      uint4 const b_low = signed_constants(1);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        auto const operand = [&](int plane) {
          std::uint32_t const* const from =
              spectrum[plane] + image_word<N>(2 * t + part, image, m) + 16 * step * Plan<N>::slot_stride + g;
          constexpr int further = 8 * Plan<N>::slot_stride;
          return uint4{from[swizzle], from[8 ^ swizzle], from[further + swizzle], from[further + (8 ^ swizzle)]};
        };
        a_high[step][m] = operand(0);
        uint4 const a_low = operand(1);
        warp_cross_mma(tiles[m][0], a_high[step][m], a_low, {b_high[step].x, b_low.x}, {b_high[step].y, b_low.y});
        warp_cross_mma(tiles[m][1], a_high[step][m], a_low, {b_high[step].z, b_low.z}, {b_high[step].w, b_low.w});
      }
    }
#pragma unroll
    for (int step = 0; step < N / 16; ++step)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        Tile high[2] = {};
        warp_high_mma(high[0], a_high[step][m], {b_high[step].x, 0}, {b_high[step].y, 0});
        warp_high_mma(high[1], a_high[step][m], {b_high[step].z, 0}, {b_high[step].w, 0});
        thread_add(tiles[m][0], high[0]);
        thread_add(tiles[m][1], high[1]);
      }
  }
}

template <bool plain>
__device__ __forceinline__ void warp_store_grid(HalfGrid<split_N> const& sums, ForwardKernelArgs<float> const& p,
                                                std::int64_t b, std::int64_t c, int exponent) {
  constexpr int N = split_N;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  bool const has_shortcut = !plain && p.shortcut.data;
  float const shortcut =
      has_shortcut ? thread_load<float>(p.shortcut.data, p.shortcut.dtype, c * p.shortcut.stride) : 0.f;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      int const row = 16 * m + g + 8 * q;
      if (row >= p.shape.rows.extent) continue;
      float const* const x = p.x.data + b * p.x.batch + c * p.x.channel + row * p.x.row;
      float* const to = p.y.data + b * p.y.batch + c * p.y.channel + row * p.y.row;
      alignas(16) float near[4], far[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float const even = sums.cosines[m][i / 2][2 * q + i % 2], odd = sums.sines[m][i / 2][2 * q + i % 2];
        near[i] = scaled(even + odd, exponent);
        far[3 - i] = scaled(even - odd, exponent);
        int const column = 4 * t + i;
        if (has_shortcut) {
          if (column < p.shape.columns.extent) near[i] += shortcut * x[column * p.x.column];
          if (N - 1 - column < p.shape.columns.extent) far[3 - i] += shortcut * x[(N - 1 - column) * p.x.column];
        }
      }
      int const far_column = N - 4 * (t + 1);
      if (plain || p.y.vectors) {
        *reinterpret_cast<float4*>(to + 4 * t) = reinterpret_cast<float4 const&>(near);
        *reinterpret_cast<float4*>(to + far_column) = reinterpret_cast<float4 const&>(far);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (4 * t + i < p.shape.columns.extent) to[(4 * t + i) * p.y.column] = near[i];
          if (far_column + i < p.shape.columns.extent) to[(far_column + i) * p.y.column] = far[i];
        }
      }
    }
}

}  // namespace faltung::long_conv::cuda::spectral
