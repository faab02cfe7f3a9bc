// fp32 on the 16-bit tensor cores: a value under a power of two is hi + 2^-11 lo in two halves, a product hi hi + 2^-11
// (hi lo + lo hi). The tensor core truncates its sums, so the first term leaves the accumulator for an fp32 register
// every 4 MMAs. In shared memory the plane of lo follows that of hi. An image has its own power of two, or, where
// images are added up, all have that of the largest.
#pragma once
#include "long_conv/cuda/toeplitz/filter_gradient.cuh"
#include "long_conv/cuda/toeplitz/split_staging.cuh"

namespace faltung::long_conv::cuda::toeplitz {

inline constexpr float low_part = 0x1p-11f;

// main += hi hi, cross += hi lo + lo hi.
__device__ __forceinline__ void warp_split_mma(float (&main)[4], float (&cross)[4], std::uint32_t const* a_high,
                                               std::uint32_t const* a_low, std::uint32_t const* b_high,
                                               std::uint32_t const* b_low) {
  warp_mma<__half>(main, a_high[0], a_high[1], a_high[2], a_high[3], b_high[0], b_high[1]);
  warp_mma<__half>(cross, a_high[0], a_high[1], a_high[2], a_high[3], b_low[0], b_low[1]);
  warp_mma<__half>(cross, a_low[0], a_low[1], a_low[2], a_low[3], b_high[0], b_high[1]);
}

template <int count>
__device__ __forceinline__ void thread_flush(float (&total)[count], float (&part)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    total[i] += part[i];
    part[i] = 0.f;
  }
}

// warp_toeplitz_product with split operands.
template <int tiles>
__device__ __forceinline__ void warp_split_product(float (&sums)[rows_per_warp][tiles][4], __half const* x,
                                                   __half const* filter, Shape const& shape, Layout const& layout,
                                                   int first_row) {
  constexpr int row = 16 * tiles, filter_words = 16 * tiles, steps_per_flush = 4 / tiles;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  int const first = max(shape.rows.low, first_row - (shape.rows.extent - 1));
  int const last = min(shape.rows.high, first_row + rows_per_warp - 1);
  if (first > last) return;
  std::uint32_t input =
      shared_address(x + lane % 8 * layout.image + lane / 8 % (2 * tiles) * 8 + (first_row - first) * row);
  std::uint32_t const* words = reinterpret_cast<std::uint32_t const*>(filter + (g & 1 ? 0 : layout.filter_copy)) +
                               8 * tiles - (g & 1) - 2 * (g / 2) + t + (first - shape.rows.low) * filter_words;
  std::uint32_t ring[2][rows_per_warp][2 * tiles];  // [hi, lo]
  float main[rows_per_warp][tiles][4] = {}, cross[rows_per_warp][tiles][4] = {};
#pragma unroll
  for (int j = 1; j < rows_per_warp; ++j)
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
      warp_load_row(ring[plane][j], input + 2 * (row * j + plane * layout.operand));
  for (int d = first; d <= last; d += rows_per_warp) {
#pragma unroll
    for (int u = 0; u < rows_per_warp; ++u) {
      std::uint32_t taps[2][2 * tiles - 1][4];
#pragma unroll
      for (int plane = 0; plane < 2; ++plane) {
        warp_load_row(ring[plane][(rows_per_warp - u) % rows_per_warp], input + 2 * (plane * layout.operand - row * u));
#pragma unroll
        for (int delta = 0; delta < 2 * tiles - 1; ++delta)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            taps[plane][delta][i] =
                words[plane * (layout.filter / 2) + u * filter_words - 8 * (delta - tiles + 1) - i % 2 + 4 * (i / 2)];
      }
#pragma unroll
      for (int j = 0; j < rows_per_warp; ++j) {
        int const slot = (j + rows_per_warp - u) % rows_per_warp;
#pragma unroll
        for (int out = 0; out < tiles; ++out) {
#pragma unroll
          for (int in = 0; in < tiles; ++in)
            warp_split_mma(main[j][out], cross[j][out], taps[0][out - in + tiles - 1], taps[1][out - in + tiles - 1],
                           ring[0][slot] + 2 * in, ring[1][slot] + 2 * in);
          if (u % steps_per_flush == steps_per_flush - 1) thread_flush(sums[j][out], main[j][out]);
        }
      }
    }
    input -= 2 * row * rows_per_warp;
    words += rows_per_warp * filter_words;
  }
#pragma unroll
  for (int j = 0; j < rows_per_warp; ++j)
#pragma unroll
    for (int out = 0; out < tiles; ++out)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[j][out][i] += low_part * cross[j][out][i];
}

// `exponent(image)`: that of the result.
template <int tiles, typename X, typename Exponent>
__device__ __forceinline__ void warp_store_split_rows(float const (&sums)[rows_per_warp][tiles][4],
                                                      Tensor<X const*> const& x, Tensor<X*> const& y,
                                                      Shortcut const& shortcut, Shape const& shape, std::int64_t b,
                                                      int count, std::int64_t c, int first_row,
                                                      Exponent const& exponent) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  float const factor = shortcut.data ? thread_load<float>(shortcut.data, shortcut.dtype, c * shortcut.stride) : 0.f;
#pragma unroll
  for (int second = 0; second < 2; ++second) {
    int const image = 2 * t + second;
    if (image >= count) continue;
    int const e = exponent(image);
    X const* const from = x.data + (b + image) * x.batch + c * x.channel;
    X* const to = y.data + (b + image) * y.batch + c * y.channel;
#pragma unroll
    for (int j = 0; j < rows_per_warp; ++j)
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          int const row = first_row + j, column = 16 * tile + 4 * (g / 2) + 2 * q + g % 2;
          if (row >= shape.rows.extent || column >= shape.columns.extent) continue;
          float value = scaled(sums[j][tile][2 * q + second], e);
          if (shortcut.data) value += factor * as_float(from[row * x.row + column * x.column]);
          to[row * y.row + column * y.column] = rounded<X>(value);
        }
  }
}

// warp_filter_gradient with split operands; all images share the exponent of the result.
template <int tiles, int lags>
__device__ __forceinline__ void warp_split_gradient(float* gradient, __half const* dy, __half const* x,
                                                    Shape const& shape, Layout const& layout, int first_lag,
                                                    bool first_images, int exponent) {
  constexpr int row = 16 * tiles, depth = lags / 2;
  int const lane = thread_lane(), rows = shape.rows.extent;
  int const begin = max(0, first_lag), end = min(rows, rows + first_lag + lags - 1);
  std::uint32_t dy_at = shared_address(dy + lane % 8 * layout.image + (begin + lane / 16) * row + lane / 8 % 2 * 8);
  std::uint32_t x_at =
      shared_address(x + lane % 8 * layout.image + (begin - first_lag + lane / 8 % 2) * row + lane / 16 * 8);
  float sums[lags][diagonals<tiles>][4] = {}, main[lags][diagonals<tiles>][4] = {},
        cross[lags][diagonals<tiles>][4] = {};
  std::uint32_t pairs[2][2][depth][tiles][4];  // [hi, lo][parity of e][ring]
  auto const load = [&](int parity, int slot, int back) {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile)
        warp_load_transposed(pairs[plane][parity][slot][tile],
                             x_at + 2 * (plane * layout.operand + 16 * tile - row * (parity + back)));
  };
#pragma unroll
  for (int j = 1; j < depth; ++j)
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) load(parity, j, 2 * j);
  for (int i = begin; i < end; i += 2 * depth) {
#pragma unroll
    for (int u = 0; u < depth; ++u) {
      if (i + 2 * u >= end) break;
      std::uint32_t a[2][tiles][4];
#pragma unroll
      for (int plane = 0; plane < 2; ++plane)
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile)
          warp_load_transposed(a[plane][tile], dy_at + 2 * plane * layout.operand + 32 * tile);
#pragma unroll
      for (int parity = 0; parity < 2; ++parity) load(parity, (depth - u) % depth, 0);
#pragma unroll
      for (int e = 0; e < lags; ++e)
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
          for (int n = 0; n < 2 * tiles; ++n) {
            int const slot = (e / 2 + depth - u) % depth, o = 2 * tile - n + 2 * tiles - 1;
            warp_split_mma(main[e][o], cross[e][o], a[0][tile], a[1][tile], pairs[0][e % 2][slot][n / 2] + n % 2 * 2,
                           pairs[1][e % 2][slot][n / 2] + n % 2 * 2);
          }
      dy_at += 4 * row;
      x_at += 4 * row;
    }
#pragma unroll
    for (int e = 0; e < lags; ++e)
#pragma unroll
      for (int o = 0; o < diagonals<tiles>; ++o) thread_flush(sums[e][o], main[e][o]);
  }
#pragma unroll
  for (int e = 0; e < lags; ++e)
#pragma unroll
    for (int o = 0; o < diagonals<tiles>; ++o)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[e][o][i] = scaled(sums[e][o][i] + low_part * cross[e][o][i], exponent);
  warp_add_gradient<tiles, lags>(gradient, sums, shape, layout, first_lag, first_images);
}

}  // namespace faltung::long_conv::cuda::toeplitz
