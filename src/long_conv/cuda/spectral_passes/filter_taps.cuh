// dk: the sums back from frequencies to column lags, and from lags to taps. A block has 32 rows of taps at a time, a
// warp 16 of them and the even or the odd column lags.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/spectral_passes/arguments.hpp"

namespace faltung::long_conv::cuda::spectral_passes {

using namespace faltung::cuda;
using spectral::Tile;

// How sums lie in the workspace, and which ones a row of taps collects.
enum class SumKind { words, values, circular_values };

inline constexpr int rows_at_once = 32, tap_stride = 2 * points + 8;
inline constexpr int tap_warps = 4;  // of a block
// Of a multiprocessor: as many as registers and shared memory allow.
template <SumKind kind, typename Element>
inline constexpr int tap_blocks = kind == SumKind::circular_values || planes<Element> == 2 ? 2 : 3;

template <typename Element>
struct alignas(16) FilterTapsShared {
  spectral::LagConstants<points, Element> constants;
  union {
    float cosines[8 * points];
    float result[rows_at_once * tap_stride];  // [row of taps][column lag + 128]
  };
};

// The sums that a row of taps collects: that of its row lag, and on a circular axis that of the lag an extent before.
// Loads depend on no condition, so that all of a lane's are under way at once.
struct RowSums {
  int lag, again;
  bool live, twice;
  template <SumKind kind>
  __device__ __forceinline__ float2 value(float2 const* sums, int slot) const {
    float2 const first = sums[slot * row_lags + lag];
    float2 sum = live ? first : float2{};
    if constexpr (kind == SumKind::circular_values) {
      float2 const more = sums[slot * row_lags + again];
      if (twice) sum = {sum.x + more.x, sum.y + more.y};
    }
    return sum;
  }
  __device__ __forceinline__ std::uint32_t word(std::uint32_t const* sums, int slot) const {
    std::uint32_t const first = sums[slot * row_lags + lag];
    return live ? first : 0u;
  }
};

__device__ __forceinline__ RowSums row_sums(LagAxis const& rows, std::int64_t tap) {
  std::int64_t lag = tap - rows.centre;
  if (rows.circular) {
    if (lag < 0) lag += rows.extent;
    bool const live = tap < rows.filter, twice = live && lag != 0;
    return {(live ? int(lag) : 0) + points, (twice ? int(lag) - rows.extent : 0) + points, live, twice};
  }
  bool const live = tap < rows.filter && lag >= rows.low && lag <= rows.high;
  int const at = (live ? int(lag) : 0) + points;
  return {at, at, live, false};
}

template <SumKind kind, typename Element>
__device__ __forceinline__ void warp_invert_lags(float* result, Sums const& sums, std::size_t filter,
                                                 LagAxis const& rows, std::int64_t first_tap,
                                                 spectral::LagConstants<points, Element> const& constants, int warp,
                                                 float headroom, int exponent) {
  constexpr int steps = slots / 32;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  int const first_row = warp / 2 * 16, parity = warp % 2;
  std::size_t const at = ((filter * 2 + parity) * (slots / 2) + 2 * t) * row_lags;
  RowSums const of_rows[2] = {row_sums(rows, first_tap + first_row + g), row_sums(rows, first_tap + first_row + g + 8)};
  constexpr int tiles = points / 2 / 8;
  Tile cosines[tiles] = {}, sines[tiles] = {};
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    std::uint32_t re[4], im[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int const slot = 16 * step + 8 * (e / 2);
      if constexpr (kind == SumKind::words) {
        std::uint32_t const first = of_rows[e % 2].word(sums.words + at, slot),
                            second = of_rows[e % 2].word(sums.words + at, slot + 1);
        re[e] = low_halves(first, second);
        im[e] = high_halves(first, second);
      } else {
        float2 const first = of_rows[e % 2].template value<kind>(sums.values + at, slot),
                     second = of_rows[e % 2].template value<kind>(sums.values + at, slot + 1);
        re[e] = half_pair(first.x * headroom, second.x * headroom);
        im[e] = half_pair(first.y * headroom, second.y * headroom);
      }
    }
#pragma unroll
    for (int plane = 0; plane < planes<Element>; ++plane)
#pragma unroll
      for (int n = 0; n < tiles; n += 2) {
        uint4 const c = constants.load(plane, 0, parity * steps + step, n / 2, lane),
                    s = constants.load(plane, 1, parity * steps + step, n / 2, lane);
        warp_mma<__half>(cosines[n], re[0], re[1], re[2], re[3], c.x, c.y);
        warp_mma<__half>(cosines[n + 1], re[0], re[1], re[2], re[3], c.z, c.w);
        warp_mma<__half>(sines[n], im[0], im[1], im[2], im[3], s.x, s.y);
        warp_mma<__half>(sines[n + 1], im[0], im[1], im[2], im[3], s.z, s.w);
      }
  }
#pragma unroll
  for (int n = 0; n < tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int const lag = spectral::lag_of_column(parity, n, 2 * t + e % 2);
      float* const to = result + (first_row + g + 8 * (e / 2)) * tap_stride + points;
      to[lag] = scaled(cosines[n][e] + sines[n][e], exponent);
      to[-lag] = scaled(cosines[n][e] - sines[n][e], exponent);
    }
}

template <SumKind kind, typename Element>
__global__ __launch_bounds__(32 * tap_warps, (tap_blocks<kind, Element>)) void filter_taps_kernel(
    __grid_constant__ FilterTapsArgs<Element> const p) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<FilterTapsShared<Element>*>(dynamic_shared);
  auto cosines = spectral::block_make_cosines<points>(shared.cosines);
  spectral::block_make_lag_constants<points>(shared.constants, cosines);
  grid_wait_for_predecessor();
  grid_release_successor();
  LagAxis const &rows = p.shape.rows, &columns = p.shape.columns;
  std::int64_t const bands = (rows.filter + rows_at_once - 1) / rows_at_once;
  int const lane = thread_lane(), warp = threadIdx.x / 32;
#pragma unroll 1
  for (std::int64_t item = blockIdx.x; item < bands * p.chunk.filters(); item += gridDim.x) {
    int const filter = int(item / bands);
    std::int64_t const first_tap = item % bands * rows_at_once;
    __syncthreads();  // the cosines, or the rows before, have been read
    constexpr int log2_points = 7;
    int const headroom = gradient_headroom - p.group_headroom;
    warp_invert_lags<kind, Element>(shared.result, p.sums, filter, rows, first_tap, shared.constants, warp,
                                    power_of_two(headroom),
                                    -p.sums.exponents[p.parity * p.sums.stride + filter] - headroom - log2_points);
    __syncthreads();
    Element* const dk =
        p.dk.data + (p.chunk.first_channel + filter / p.chunk.filters_per_channel) * p.dk.channel +
        (p.chunk.images_per_filter > 1 ? 0 : p.chunk.first_image + filter % p.chunk.filters_per_channel) * p.dk.batch;
#pragma unroll 1
    for (int row = warp; row < rows_at_once && first_tap + row < rows.filter; row += tap_warps) {
      float const* const from = shared.result + row * tap_stride + points;
      Element* const to = dk + (first_tap + row) * p.dk.row;
      if (!columns.circular) {
        // Without a lag there is no centre to speak of.
        int const low = columns.low, live = columns.high - columns.low + 1, total = int(columns.filter),
                  centre = live > 0 ? int(columns.centre) : 0;
#pragma unroll 4
        for (int tap = lane; tap < total; tap += 32) {
          int const lag = tap - centre;
          to[tap * p.dk.column] = rounded<Element>(unsigned(lag - low) < unsigned(live) ? from[lag] : 0.f);
        }
      } else {
        for (int tap = lane; tap < int(columns.filter); tap += 32) {
          int lag = tap - int(columns.centre);
          if (lag < 0) lag += columns.extent;
          to[tap * p.dk.column] = rounded<Element>(from[lag] + (lag ? from[lag - columns.extent] : 0.f));
        }
      }
    }
  }
}

}  // namespace faltung::long_conv::cuda::spectral_passes
