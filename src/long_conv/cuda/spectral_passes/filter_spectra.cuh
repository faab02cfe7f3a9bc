// Rows of filters, by row lags, to frequencies: a block per filter at a time, which it reads twice, first for the
// largest magnitude; a warp has sixteen row lags at a time, eight of them staged in shared memory.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/spectral_passes/arguments.hpp"
#include "long_conv/cuda/spectral_passes/copy.cuh"

namespace faltung::long_conv::cuda::spectral_passes {

using namespace faltung::cuda;
using spectral::Tile, spectral::SplitWord;

// Columns of two MMA tiles, such that a lane's sums are those of four neighbours.
inline constexpr int lags_per_warp = 16;
__device__ __forceinline__ int lag_of_column(int half, int column) { return column / 2 * 4 + 2 * half + column % 2; }

template <typename Element>
struct alignas(16) FilterSpectraShared {
  spectral::FilterConstants<points, Element> constants;
  std::uint32_t staged[warps][8 * points];  // [row lag][column lags 0 .. 127, then 0 .. -127], 16-bit
  float cosines[8 * points];
  std::uint32_t maxima[2][warps];
};

// Where 16-byte chunk `chunk` of a staged row lies: what a quarter warp reads at a time in different banks.
__device__ __forceinline__ int staged_chunk(int row, int chunk) { return chunk ^ (chunk >> 3 & 1) ^ (row & 1) * 2; }

// visit(j, values) with the lane's taps of row lags first_row - 127 + lag_of_column(half, j), j < 8. `linear`: neither
// axis is circular and columns lie side by side, so that a lane's taps are 32 apart.
template <bool linear, typename Element, typename Visit>
__device__ __forceinline__ void warp_visit_taps(Element const* k, Tensor<Element const*> const& strides,
                                                Shape const& shape, spectral::RowTaps<points> const& taps,
                                                int first_row, int half, Visit const& visit) {
  constexpr int per_row = spectral::RowTaps<points>::count, at_once = 4;
  LagAxis const &rows = shape.rows, &columns = shape.columns;
  if constexpr (linear) k += columns.centre - (points - 1) + thread_lane();
#pragma unroll 1
  for (int start = 0; start < 8; start += at_once) {
    Element value[at_once][per_row] = {};
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      int const lag = first_row + lag_of_column(half, start + j) - (points - 1);
      bool const inside = lag >= rows.low && lag <= rows.high;
      std::int64_t const tap = inside ? rows.tap(lag) : -1;
      if (tap < 0) continue;
      Element const* const from = k + tap * strides.row;
#pragma unroll
      for (int i = 0; i < per_row; ++i)
        if (taps.live[i]) {
          if constexpr (linear)
            value[j][i] = from[i == per_row - 1 ? taps.last : 32 * i];
          else
            value[j][i] = from[columns.tap(taps.lag[i]) * strides.column];
        }
    }
#pragma unroll
    for (int j = 0; j < at_once; ++j) visit(start + j, value[j]);
  }
}

// The largest magnitude as bits of an element.
template <typename Element>
__device__ __forceinline__ std::uint32_t largest(std::uint32_t most, Element const& value) {
  return larger_magnitudes<Element>(most, reinterpret_cast<unsigned short const&>(value));
}

// A lane's taps of a staged row lag, or, folded, their sums and differences.
struct FoldedLags {
  static constexpr int words = points / 8;
  std::uint32_t positive[words], negative[words];
};

template <typename Element>
__device__ __forceinline__ void warp_read_lags(FoldedLags& lags, std::uint32_t const* staged, int exponent) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  HalfScale<Element> const scaled(exponent);
#pragma unroll
  for (int i = 0; i < FoldedLags::words; i += 4) {
    int const chunk = t * (FoldedLags::words / 4) + i / 4;
    uint4 const a = *reinterpret_cast<uint4 const*>(staged + g * points + 4 * staged_chunk(g, chunk)),
                b = *reinterpret_cast<uint4 const*>(staged + g * points + 4 * staged_chunk(g, chunk + points / 8));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t const positive = scaled(reinterpret_cast<std::uint32_t const*>(&a)[j]),
                          negative = scaled(reinterpret_cast<std::uint32_t const*>(&b)[j]);
      bool const folds = planes<Element> == 1;
      lags.positive[i + j] = folds ? half_add(positive, negative) : positive;
      lags.negative[i + j] = folds ? half_subtract(positive, negative) : negative;
    }
  }
}

// Spectra of sixteen row lags to [slot][row lag].
template <typename Element>
__device__ __forceinline__ void warp_transform_lags(std::uint32_t* words, std::uint32_t* low,
                                                    FoldedLags const (&lags)[2],
                                                    spectral::FilterConstants<points, Element> const& constants) {
  constexpr int steps = points / 16;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  constexpr float headroom = 1.f / (1 << -filter_headroom);
#pragma unroll 1
  for (int tile = 0; tile < slots / 32; ++tile) {
    Tile re[2][2] = {}, im[2][2] = {};  // [half of the lags][of even column lags, of odd ones]
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      int const odd = step / (steps / 2);
      uint4 const c = constants.load(0, 0, tile, step, lane), s = constants.load(0, 1, tile, step, lane);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t const *const a = lags[half].positive + 2 * step, *const b = lags[half].negative + 2 * step;
        warp_mma<__half>(re[half][odd], c.x, c.y, c.z, c.w, a[0], a[1]);
        if constexpr (planes<Element> == 1) {
          warp_mma<__half>(im[half][odd], s.x, s.y, s.z, s.w, b[0], b[1]);
        } else {
          constexpr std::uint32_t both = spectral::sign_of_both;
          warp_mma<__half>(im[half][odd], s.x, s.y, s.z, s.w, a[0], a[1]);
          warp_mma<__half>(re[half][odd], c.x, c.y, c.z, c.w, b[0], b[1]);
          warp_mma<__half>(im[half][odd], s.x, s.y, s.z, s.w, b[0] ^ both, b[1] ^ both);
        }
      }
      if constexpr (planes<Element> == 2) {
        uint4 const less_c = constants.load(1, 0, tile, step, lane), less_s = constants.load(1, 1, tile, step, lane);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t const *const a = lags[half].positive + 2 * step, *const b = lags[half].negative + 2 * step;
          warp_mma<__half>(re[half][odd], less_c.x, less_c.y, less_c.z, less_c.w, half_add(a[0], b[0]),
                           half_add(a[1], b[1]));
          warp_mma<__half>(im[half][odd], less_s.x, less_s.y, less_s.z, less_s.w, half_subtract(a[0], b[0]),
                           half_subtract(a[1], b[1]));
        }
      }
    }
#pragma unroll
    for (int mirrored = 0; mirrored < 2; ++mirrored)
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        int const slot = mirrored * (slots / 2) + 16 * tile + 8 * q + g;
        SplitWord word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          int const half = i / 2, e = 2 * q + i % 2;
          float const even_re = re[half][0][e], odd_re = re[half][1][e], even_im = im[half][0][e],
                      odd_im = im[half][1][e];
          word[i] = mirrored ? spectral::split((even_re - odd_re) * headroom, (odd_im - even_im) * headroom)
                             : spectral::split((even_re + odd_re) * headroom, (odd_im + even_im) * headroom);
        }
        thread_store_words(words + slot * row_lags + 4 * t, word[0].high, word[1].high, word[2].high, word[3].high);
        if (planes<Element> == 2 && low && slot < low_slots)
          thread_store_words(low + slot * row_lags + 4 * t, word[0].low, word[1].low, word[2].low, word[3].low);
      }
  }
}

// The largest magnitude of the taps that have a lag, over the threads of the block.
template <bool linear, typename Element>
__device__ __forceinline__ std::uint32_t thread_measure(Element const* k, Tensor<Element const*> const& strides,
                                                        Shape const& shape, spectral::RowTaps<points> const& taps) {
  std::uint32_t most = 0;
  LagAxis const &rows = shape.rows, &columns = shape.columns;
  std::int64_t const total = rows.filter * columns.filter;
  if (linear && strides.row == columns.filter && rows.high - rows.low + 1 == rows.filter &&
      columns.high - columns.low + 1 == columns.filter) {
    // All taps, in one run: 16 bytes at a time, one by one before the first and behind the last aligned address.
    int const head = min(int(total), int((16 - reinterpret_cast<std::uintptr_t>(k) % 16) % 16 / sizeof(Element)));
    int const vectors = (int(total) - head) / 8, tail = head + 8 * vectors;
    auto const* const from = reinterpret_cast<uint4 const*>(k + head);
#pragma unroll 8
    for (int i = threadIdx.x; i < vectors; i += threads) {
      uint4 const words = from[i];
      most = larger_magnitudes<Element>(most, words.x);
      most = larger_magnitudes<Element>(most, words.y);
      most = larger_magnitudes<Element>(most, words.z);
      most = larger_magnitudes<Element>(most, words.w);
    }
    if (int(threadIdx.x) < head) most = largest(most, k[threadIdx.x]);
    if (int(threadIdx.x) < int(total) - tail) most = largest(most, k[tail + threadIdx.x]);
    return most;
  }
#pragma unroll 1
  for (int first = lags_per_warp * (threadIdx.x / 32); first < row_lags; first += lags_per_warp * warps)
#pragma unroll 1
    for (int half = 0; half < 2; ++half)
      warp_visit_taps<linear>(k, strides, shape, taps, first, half, [&](int, auto const& values) {
#pragma unroll
        for (auto const& value : values) most = largest(most, value);
      });
  return most;
}

template <bool linear, typename Element>
__global__ __launch_bounds__(threads,
                             2) void filter_spectra_kernel(__grid_constant__ FilterSpectraArgs<Element> const p) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<FilterSpectraShared<Element>*>(dynamic_shared);
  auto cosines = spectral::block_make_cosines<points>(shared.cosines);
  spectral::block_make_filter_constants<points>(shared.constants, cosines);
  grid_wait_for_predecessor();
  grid_release_successor();
  __syncthreads();
  int const lane = thread_lane(), warp = threadIdx.x / 32;
  auto* const staged = reinterpret_cast<unsigned short*>(shared.staged[warp]);
  spectral::RowTaps<points> const taps(p.shape.columns);
  int places[spectral::RowTaps<points>::count];  // in even rows; in odd ones two chunks of eight lags change places
#pragma unroll
  for (int i = 0; i < spectral::RowTaps<points>::count; ++i)
    places[i] = staged_chunk(0, taps.place[i] / 8) * 8 + taps.place[i] % 8;
  int parity = 0;
#pragma unroll 1
  for (int filter = blockIdx.x; filter < p.chunk.filters(); filter += gridDim.x) {
    int const sample = filter % p.chunk.filters_per_channel;
    Element const* const k = p.k.data + (p.chunk.first_channel + filter / p.chunk.filters_per_channel) * p.k.channel +
                             (p.chunk.images_per_filter > 1 ? 0 : p.chunk.first_image + sample) * p.k.batch;
    std::uint32_t most = thread_measure<linear>(k, p.k, p.shape, taps);
    most = spectral::warp_max(most);
    if (lane == 0) shared.maxima[parity][warp] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < warps; ++i) most = max(most, shared.maxima[parity][i]);
    parity ^= 1;
    int const exponent = normalising_exponent<Element>(most);
    if (threadIdx.x == 0) p.to.exponents[filter] = exponent;
    std::uint32_t* const words = p.to.words + std::size_t(filter) * slots * row_lags;
    std::uint32_t* const low = p.to.low ? p.to.low + std::size_t(filter) * low_slots * row_lags : nullptr;
#pragma unroll 1
    for (int first = lags_per_warp * warp; first < row_lags; first += lags_per_warp * warps) {
      FoldedLags lags[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        __syncwarp();
        warp_visit_taps<linear>(k, p.k, p.shape, taps, first, half, [&](int j, auto const& values) {
#pragma unroll
          for (int i = 0; i < spectral::RowTaps<points>::count; ++i)
            staged[j * 2 * points + (j % 2 ? places[i] ^ 16 : places[i])] =
                reinterpret_cast<unsigned short const&>(values[i]);
        });
        __syncwarp();
        warp_read_lags<Element>(lags[half], shared.staged[warp], exponent);
      }
      warp_transform_lags<Element>(words + first, low + (low ? first : 0), lags, shared.constants);
    }
  }
}

}  // namespace faltung::long_conv::cuda::spectral_passes
