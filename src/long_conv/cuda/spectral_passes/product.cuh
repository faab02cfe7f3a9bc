// Along the rows: per slot a complex Toeplitz product, eight images at a time, in place. A warp has a slot to itself.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/spectral_passes/arguments.hpp"
#include "long_conv/cuda/spectral_passes/copy.cuh"

namespace faltung::long_conv::cuda::spectral_passes {

using namespace faltung::cuda;
using spectral::Tile;

inline constexpr int product_warps = 4;

// Row lags of a slot of a filter as words of lag and the lag before, as the MMA's B operand wants them: word j is that
// of lag 8 (first + j) + g - 2t.
template <int count>
__device__ __forceinline__ void warp_load_lags(std::uint32_t (&re)[count], std::uint32_t (&im)[count],
                                               std::uint32_t const* filter, int first) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  std::uint32_t const* const lags = filter + points - 1 + 8 * first + g - 2 * t;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    std::uint32_t const lag = lags[8 * j], before = lags[8 * j - 1];
    re[j] = low_halves(lag, before);
    im[j] = high_halves(lag, before);
  }
}

struct Operand {  // 16 rows: re of eight images, then im
  std::uint32_t a[4];
};
__device__ __forceinline__ Operand operand(uint4 word) {  // rows 2t, 2t + 8, 2t + 1, 2t + 9 of image g
  return {low_halves(word.x, word.z), high_halves(word.x, word.z), low_halves(word.y, word.w),
          high_halves(word.y, word.w)};
}

__device__ __forceinline__ void warp_multiply(Tile& by_re, Tile& by_im, Operand const& x, std::uint32_t const (&re)[2],
                                              std::uint32_t const (&im)[2]) {
  warp_mma<__half>(by_re, x.a[0], x.a[1], x.a[2], x.a[3], re[0], re[1]);
  warp_mma<__half>(by_im, x.a[0], x.a[1], x.a[2], x.a[3], im[0], im[1]);
}

// 16 output rows to their places.
__device__ __forceinline__ void thread_store_rows(std::uint32_t* to, Tile const (&by_re)[2], Tile const (&by_im)[2]) {
  std::uint32_t words[2][2];  // [tile of 8 rows][row 2t, 2t + 1]
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int e = 0; e < 2; ++e) words[m][e] = half_pair(by_re[m][e] - by_im[m][2 + e], by_re[m][2 + e] + by_im[m][e]);
  thread_store_words(to, words[0][0], words[1][0], words[0][1], words[1][1]);
}

// read(tile) -> words of the lane's rows of 16; `words`: where the products go, of the lane's image, from its first row
// on. `filter`: in shared memory.
template <int tiles, typename Read>
__device__ __forceinline__ void warp_multiply_slot(std::uint32_t* words, bool live, std::uint32_t const* filter,
                                                   Read const& read) {
  constexpr int count = 4 * tiles - 1, middle = 2 * tiles - 1;
  Operand x[tiles];
#pragma unroll
  for (int in = 0; in < tiles; ++in) x[in] = operand(read(in));
  std::uint32_t re[count], im[count];
  warp_load_lags(re, im, filter, -middle);
#pragma unroll
  for (int out = 0; out < tiles; ++out) {
    Tile by_re[2] = {}, by_im[2] = {};
#pragma unroll
    for (int in = 0; in < tiles; ++in)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        int const z = 2 * (out - in) + m + middle;
        warp_multiply(by_re[m], by_im[m], x[in], {re[z], re[z - 1]}, {im[z], im[z - 1]});
      }
    if (live) thread_store_rows(words + 16 * out, by_re, by_im);
  }
}

// The first slots, whose operands have two halves.
template <int tiles>
__device__ __forceinline__ void warp_multiply_low_slot(std::uint32_t* words, std::uint32_t const* low, bool live,
                                                       std::uint32_t const* filter, std::uint32_t const* low_filter) {
  constexpr int count = 2 * tiles + 1, middle = 2 * tiles - 1;
  uint4 high[tiles];
#pragma unroll
  for (int in = 0; in < tiles; ++in) high[in] = live ? *reinterpret_cast<uint4 const*>(words + 16 * in) : uint4{};
#pragma unroll 1
  for (int out = 0; out < tiles; ++out) {
    Tile by_re[2] = {}, by_im[2] = {};
#pragma unroll
    for (int pass = 0; pass < 3; ++pass) {  // lo hi, hi lo, hi hi
      std::uint32_t re[count], im[count];
      warp_load_lags(re, im, pass == 1 ? low_filter : filter, 2 * out - middle);
#pragma unroll
      for (int in = 0; in < tiles; ++in) {
        uint4 const word = pass ? high[in] : live ? *reinterpret_cast<uint4 const*>(low + 16 * in) : uint4{};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          int const z = m + middle - 2 * in;
          warp_multiply(by_re[m], by_im[m], operand(word), {re[z], re[z - 1]}, {im[z], im[z - 1]});
        }
      }
    }
    if (live) thread_store_rows(words + 16 * out, by_re, by_im);
  }
}

// What one warp does: `two_halves` says so of the operands of all slots of the launch.
template <int tiles, bool two_halves>
__global__ __launch_bounds__(32 * product_warps, 4) void product_kernel(__grid_constant__ ProductArgs const p) {
  __shared__ __align__(16) std::uint32_t filters[product_warps][two_halves ? 2 : 1][row_lags];
  grid_wait_for_predecessor();
  grid_release_successor();
  int const lane = thread_lane(), warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  int const item = blockIdx.x * product_warps + warp;
  if (item >= p.chunk.units() * p.slots.count) return;
  int const unit = p.chunk.at(item / p.slots.count, p.chunk.units()), slot = p.slots.first + item % p.slots.count;
  int const filter = p.chunk.filter_of_unit(unit);
  auto const copy = [&](std::uint32_t* to, std::uint32_t const* from) {
#pragma unroll
    for (int i = 0; i < row_lags; i += 128)
      *reinterpret_cast<uint4*>(to + i + 4 * lane) = *reinterpret_cast<uint4 const*>(from + i + 4 * lane);
  };
  copy(filters[warp][0], p.filters.words + (std::size_t(filter) * slots + slot) * row_lags);
  bool const live = g < p.chunk.count(unit);
  std::size_t const place = std::size_t(unit) * p.chunk.images + g;
  int const at = slot * points + 4 * t;
  std::uint32_t* const words = p.images.words + place * image_words + at;
  if constexpr (two_halves) {
    copy(filters[warp][1], p.filters.low + (std::size_t(filter) * low_slots + slot) * row_lags);
    __syncwarp();
    warp_multiply_low_slot<tiles>(words, p.images.low + place * low_image_words + at, live, filters[warp][0],
                                  filters[warp][1]);
  } else {
    __syncwarp();
    warp_multiply_slot<tiles>(words, live, filters[warp][0], [&](int tile) {
      return live ? *reinterpret_cast<uint4 const*>(words + 16 * tile) : uint4{};
    });
  }
}

}  // namespace faltung::long_conv::cuda::spectral_passes
