// Rows of images to frequencies: four warps an image, each 32 rows, all slots.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/spectral_passes/arguments.hpp"
#include "long_conv/cuda/spectral_passes/copy.cuh"

namespace faltung::long_conv::cuda::spectral_passes {

using namespace faltung::cuda;
using spectral::Rows, spectral::Tile, spectral::SplitWord;

template <typename Element>
struct alignas(16) ImageSpectraShared {
  spectral::InputConstants<points, Element> constants;
  uint4 staged[warps][32 * points / 8];  // 32 rows of a warp's next image
  float cosines[8 * points];
  std::uint32_t maxima[2][warps];
};

// Where 16-byte chunk `chunk` of a staged row lies: what a quarter warp reads at a time in different banks.
__device__ __forceinline__ int staged_image_chunk(int row, int chunk) {
  return row * (points / 8) + (chunk ^ (row & 1));
}

// 32 rows of an image on their way to shared memory, zeros outside the grid: groups of eight columns are aligned, and
// wholly inside or outside.
template <typename Element>
__device__ __forceinline__ void warp_stage_image(uint4* staged, Tensor<Element const*> const& x, Shape const& shape,
                                                 std::int64_t b, std::int64_t c, int first_row) {
  int const lane = thread_lane(), chunk = lane % 16;
  Element const* const from = x.data + b * x.batch + c * x.channel;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    int const row = 2 * i + lane / 16;
    bool const inside = first_row + row < shape.rows.extent && 8 * chunk < shape.columns.extent;
    thread_copy_or_clear(staged + staged_image_chunk(row, chunk),
                         inside ? from + (first_row + row) * x.row + 8 * chunk : from, inside);
  }
}

__device__ __forceinline__ void warp_read_image(Rows<points>& rows, uint4 const* staged) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      uint4 const near = staged[staged_image_chunk(8 * n + g, 2 * t + j)],
                  far = staged[staged_image_chunk(8 * n + g, 14 - 2 * t + j)];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rows.near[n][4 * j + i] = reinterpret_cast<std::uint32_t const*>(&near)[i];
        rows.far[n][7 - 4 * j - i] = reinterpret_cast<std::uint32_t const*>(&far)[i];
      }
    }
}

// The same for any strides, past shared memory.
template <typename Element>
__device__ __forceinline__ void warp_load_image(Rows<points>& rows, Tensor<Element const*> const& x, Shape const& shape,
                                                std::int64_t b, std::int64_t c, int first_row) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4, columns = shape.columns.extent;
  Element const* const from = x.data + b * x.batch + c * x.channel;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    int const row = first_row + 8 * n + g;
    bool const inside = row < shape.rows.extent;
    auto const element = [&](int column) -> std::uint32_t {
      return inside && column < columns ? reinterpret_cast<unsigned short const&>(from[row * x.row + column * x.column])
                                        : 0u;
    };
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      int const column = 16 * t + 2 * i;
      rows.near[n][i] = element(column) | element(column + 1) << 16;
      rows.far[n][i] = element(points - 2 - column) | element(points - 1 - column) << 16;
    }
  }
}

// Slots 16 tile and on of 32 rows. `low`: of the image's first slots, or null.
__device__ __forceinline__ void warp_store_image(std::uint32_t* words, std::uint32_t* low, Tile const (&re)[4],
                                                 Tile const (&im)[4], int tile) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    int const slot = 16 * tile + 8 * q + g;
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      SplitWord const word[4] = {spectral::split(re[n][2 * q], im[n][2 * q]),
                                 spectral::split(re[n + 1][2 * q], im[n + 1][2 * q]),
                                 spectral::split(re[n][2 * q + 1], im[n][2 * q + 1]),
                                 spectral::split(re[n + 1][2 * q + 1], im[n + 1][2 * q + 1])};
      int const at = slot * points + 8 * n + 4 * t;
      thread_store_words(words + at, word[0].high, word[1].high, word[2].high, word[3].high);
      if (low && slot < low_slots) thread_store_words(low + at, word[0].low, word[1].low, word[2].low, word[3].low);
    }
  }
}

template <bool vectors, typename Element>
__global__ __launch_bounds__(threads,
                             2) void image_spectra_kernel(__grid_constant__ ImageSpectraArgs<Element> const p) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<ImageSpectraShared<Element>*>(dynamic_shared);
  auto cosines = spectral::block_make_cosines<points>(shared.cosines);
  spectral::block_make_input_constants<points>(shared.constants, cosines);
  grid_wait_for_predecessor();
  grid_release_successor();
  __syncthreads();
  constexpr int per_image = points / 32, at_once = warps / per_image;
  int const warp = threadIdx.x / 32, team = warp / per_image, first_row = warp % per_image * 32;
  int const places = p.chunk.places();
  int const step = gridDim.x * at_once;
  auto const stage = [&](int index) {
    if (index < places) {
      int const place = p.chunk.at(index, places), unit = place / p.chunk.images;
      warp_stage_image(shared.staged[warp], p.x, p.shape, p.chunk.image(unit, place % p.chunk.images),
                       p.chunk.first_channel + p.chunk.channel_of_unit(unit), first_row);
    }
    thread_commit_copies();
  };
  int parity = 0, index = p.chunk.next_index(blockIdx.x * at_once + team, step);
  if constexpr (vectors) stage(index);
#pragma unroll 1
  for (int next; index < places; index = next) {
    next = p.chunk.next_index(index + step, step);
    int const place = p.chunk.at(index, places), unit = place / p.chunk.images, image = place % p.chunk.images;
    Rows<points> rows = {};
    if constexpr (vectors) {
      thread_wait_for_batches<0>();
      __syncwarp();
      warp_read_image(rows, shared.staged[warp]);
      __syncwarp();
      stage(next);
    } else {
      warp_load_image(rows, p.x, p.shape, p.chunk.image(unit, image),
                      p.chunk.first_channel + p.chunk.channel_of_unit(unit), first_row);
    }
    std::uint32_t most = spectral::warp_magnitude<points, Element>(rows);
    if (thread_lane() == 0) shared.maxima[parity][warp] = most;
    team_barrier(1 + team, 32 * per_image);
#pragma unroll
    for (int i = 0; i < per_image; ++i) most = max(most, shared.maxima[parity][team * per_image + i]);
    parity ^= 1;  // the next turn writes beside what this one reads
    int const exponent = normalising_exponent<Element>(most);
    if (first_row == 0 && thread_lane() == 0) p.to.exponents[place] = exponent;
    if (first_row >= p.shape.rows.extent) continue;  // the products read tiles of 16 rows with some of the grid
    spectral::thread_fold<points, Element>(rows, exponent);
    std::uint32_t* const words = p.to.words + std::size_t(place) * image_words + first_row;
    std::uint32_t* const low =
        planes<Element> == 1 ? nullptr : p.to.low + std::size_t(place) * low_image_words + first_row;
#pragma unroll 1
    for (int tile = 0; tile < slots / 16; ++tile) {
      Tile re[4] = {}, im[4] = {};
      constexpr int direct_tiles = slots / 32;
      if (tile == direct_tiles) spectral::thread_negate_even<points>(rows);
      spectral::warp_transform_rows<points, Element>(re, im, rows, shared.constants, tile % direct_tiles,
                                                     tile >= direct_tiles);
      warp_store_image(words, tile == 0 ? low : nullptr, re, im, tile);
    }
  }
}

}  // namespace faltung::long_conv::cuda::spectral_passes
