// The gradient of the filter by lags: G[d, l] = sum over images b and positions (i, j) of dy[b, i, j] x[b, i - d, j -
// l]. For a row lag, an MMA has dy's columns as its 16 rows, x's columns as its 8 columns, and 8 images x 2 grid rows
// as K; entries of one column lag lie on a diagonal. Blocks of 8 x 8 on one block diagonal share an accumulator; the
// sums along the diagonals of these are shuffles, a reduction and a scatter at once.
#pragma once
#include "long_conv/cuda/toeplitz/product.cuh"

namespace faltung::long_conv::cuda::toeplitz {

// Accumulators of one row lag: one per pair of block diagonals.
template <int tiles>
inline constexpr int diagonals = 4 * tiles - 2;

// Sums along the diagonals of `blocks` (block diagonal delta of lag 8 delta + row - column). The lane gets the sums of
// `tiles` lags: 8 beta + residue for the tiles values of beta that start at the returned one.
template <int tiles>
__device__ __forceinline__ void warp_sum_diagonals(float const (&blocks)[diagonals<tiles>][4],
                                                   float (&lag_sums)[tiles]) {
  constexpr int wide = 2 * tiles, count = 2 * wide;  // beta from -wide to wide - 1
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  auto const block = [&](int delta, int r) {
    int const o = delta + wide - 1;
    float value = 0.f;
    if (o >= 0 && o < diagonals<tiles>) value += blocks[o][r];
    if (o >= 1 && o <= diagonals<tiles>) value += blocks[o - 1][2 + r];
    return value;
  };
  float all[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    int const beta = i - wide;
    // Above the diagonal of its block an entry belongs to the lags of the block diagonal before.
    float const even = g >= 2 * t ? block(beta, 0) : block(beta + 1, 0);
    float const odd = g >= 2 * t + 1 ? block(beta, 1) : block(beta + 1, 1);
    all[i] = even + __shfl_sync(~0u, odd, (lane + 4) % 32);
  }
  float half[count / 2];
  int const neighbour = (t & 1 ? lane - 9 : lane + 9) & 31;
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
    float const keep = t & 1 ? all[count / 2 + i] : all[i], give = t & 1 ? all[i] : all[count / 2 + i];
    half[i] = keep + __shfl_sync(~0u, give, neighbour);
  }
  int const opposite = (t & 2 ? lane - 18 : lane + 18) & 31;
#pragma unroll
  for (int i = 0; i < tiles; ++i) {
    float const keep = t & 2 ? half[tiles + i] : half[i], give = t & 2 ? half[i] : half[tiles + i];
    lag_sums[i] = keep + __shfl_sync(~0u, give, opposite);
  }
}

// Adds the accumulators of row lags first_lag .. first_lag + lags - 1 to gradient [row lag - low][column lag + 16
// tiles].
template <int tiles, int lags>
__device__ __forceinline__ void warp_add_gradient(float* gradient, float const (&sums)[lags][diagonals<tiles>][4],
                                                  Shape const& shape, Layout const& layout, int first_lag,
                                                  bool first_images) {
  int const lane = thread_lane();
  int const t = lane % 4, residue = (lane / 4 - 2 * t) & 7;
  int const beta = (t & 1) * 2 * tiles + (t / 2) * tiles;  // plus 2 tiles
#pragma unroll
  for (int e = 0; e < lags; ++e) {
    float lag_sums[tiles];
    warp_sum_diagonals<tiles>(sums[e], lag_sums);
    if (first_lag + e > shape.rows.high) break;
    float* const to = gradient + (first_lag + e - shape.rows.low) * layout.filter_row + 8 * beta + residue;
#pragma unroll
    for (int i = 0; i < tiles; ++i) to[8 * i] = first_images ? lag_sums[i] : to[8 * i] + lag_sums[i];
  }
}

// Adds the sums of row lags first_lag .. first_lag + lags - 1 to gradient [row lag - low][column lag + 16 tiles].
template <typename Element, int tiles, int lags>
__device__ __forceinline__ void warp_filter_gradient(float* gradient, Element const* dy, Element const* x,
                                                     Shape const& shape, Layout const& layout, int first_lag,
                                                     bool first_images) {
  static_assert(lags % 2 == 0);
  constexpr int row = 16 * tiles, depth = lags / 2;
  int const lane = thread_lane(), rows = shape.rows.extent;
  int const begin = max(0, first_lag), end = min(rows, rows + first_lag + lags - 1);
  // Lane l points at image l % 8 of matrix l / 8. Of dy: (row i, columns 0 - 7), (row i, columns 8 - 15), the same of
  // row i + 1; of x the rows change first, so that both halves of K of a block of 8 columns are neighbours.
  std::uint32_t dy_at = shared_address(dy + lane % 8 * layout.image + (begin + lane / 16) * row + lane / 8 % 2 * 8);
  std::uint32_t x_at =
      shared_address(x + lane % 8 * layout.image + (begin - first_lag + lane / 8 % 2) * row + lane / 16 * 8);
  float sums[lags][diagonals<tiles>][4] = {};
  // Rows (s, s + 1) of x: lag e meets s = i - first_lag - e, which is what lag e - 2 met two rows before. [parity of
  // e][ring]
  std::uint32_t pairs[2][depth][tiles][4];
  auto const load = [&](int parity, int slot, int back) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      warp_load_transposed(pairs[parity][slot][tile], x_at + 2 * (16 * tile - row * (parity + back)));
  };
#pragma unroll
  for (int j = 1; j < depth; ++j)
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) load(parity, j, 2 * j);
  for (int i = begin; i < end; i += 2 * depth) {
#pragma unroll
    for (int u = 0; u < depth; ++u) {
      if (i + 2 * u >= end) break;
      std::uint32_t a[tiles][4];
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) warp_load_transposed(a[tile], dy_at + 32 * tile);
#pragma unroll
      for (int parity = 0; parity < 2; ++parity) load(parity, (depth - u) % depth, 0);
#pragma unroll
      for (int e = 0; e < lags; ++e)
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
          for (int n = 0; n < 2 * tiles; ++n) {
            auto const& b = pairs[e % 2][(e / 2 + depth - u) % depth][n / 2];
            warp_mma<Element>(sums[e][2 * tile - n + 2 * tiles - 1], a[tile][0], a[tile][1], a[tile][2], a[tile][3],
                              b[n % 2 * 2], b[n % 2 * 2 + 1]);
          }
      dy_at += 4 * row;
      x_at += 4 * row;
    }
  }
  warp_add_gradient<tiles, lags>(gradient, sums, shape, layout, first_lag, first_images);
}

}  // namespace faltung::long_conv::cuda::toeplitz
