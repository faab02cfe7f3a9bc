// Back to the grid: a warp has 32 rows and half of the columns of an image, those of 32 columns of the half grid and
// their mirror images.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/spectral_passes/arguments.hpp"
#include "long_conv/cuda/spectral_passes/copy.cuh"

namespace faltung::long_conv::cuda::spectral_passes {

using namespace faltung::cuda;
using spectral::Tile, spectral::Wave;

inline constexpr int slot_steps = slots / 16, column_tiles = points / 2 / 8;
inline constexpr int ring_stages = 4;

// Where four row positions of a slot lie among those of a step: what a quarter warp reads at a time in different banks.
__device__ __forceinline__ int staged_slot_chunk(int slot, int chunk) {
  return slot * (points / 4) + (chunk ^ (slot >> 1 & 3) * 2);
}

template <typename Element>
struct alignas(16) ImageGridShared {
  spectral::Fragments<Element, slot_steps, column_tiles / 2> constants;  // B [slot][column], two tiles of 8 columns
  uint4 ring[ring_stages][16 * points / 4];                              // 16 slots of an image, see staged_slot_chunk
  float cosines[8 * points];
};

// Slots from `slots / 2` on are mirror images.
__device__ __forceinline__ int frequency(int slot) { return slot < slots / 2 ? slot : slots - 1 - (slot - slots / 2); }

// Column g of MMA tile n is column 32 (n / 4) + 8 (g / 2) + 2 (n % 4) + g % 2 of the half grid: a lane then has eight
// neighbours, and four lanes 64 bytes.
template <typename Element>
__device__ __forceinline__ void block_make_grid_constants(
    spectral::Fragments<Element, slot_steps, column_tiles / 2>& to, spectral::CosineTable<points>& cosines) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  spectral::block_make_fragments<points, Element>(
      to, cosines, [&](spectral::CosineTable<points> const& table, Wave wave, int step, int tiles) {
        auto const pair = [&](int slot, int n) {
          int const column = n / 4 * 32 + 8 * (g / 2) + 2 * (n % 4) + g % 2, twice_distance = points - 1 - 2 * column;
          return table.pair(table.at(wave, frequency(slot), twice_distance),
                            table.at(wave, frequency(slot + 1), twice_distance));
        };
        int const slot = 16 * step + 2 * t, n = 2 * tiles;
        return uint4{pair(slot, n), pair(slot + 8, n), pair(slot, n + 1), pair(slot + 8, n + 1)};
      });
}

// Sums that meet cosines and sines, [16 rows][tile of 8 columns].
struct HalfGrid {
  Tile cosines[2][4], sines[2][4];
};

// Adds 16 slots of the warp's rows.
template <typename Element>
__device__ __forceinline__ void warp_invert_step(
    HalfGrid& sums, uint4 const* staged, spectral::Fragments<Element, slot_steps, column_tiles / 2> const& constants,
    int step, int first_row, int half) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  std::uint32_t a[2][2][4];  // [rows][re, im]
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    int const slot = 8 * pair + 2 * t, chunk = first_row / 4 + g;
    uint4 const first = staged[staged_slot_chunk(slot, chunk)], second = staged[staged_slot_chunk(slot + 1, chunk)];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      std::uint32_t const low = reinterpret_cast<std::uint32_t const*>(&first)[i],
                          high = reinterpret_cast<std::uint32_t const*>(&second)[i];
      a[i / 2][0][2 * pair + i % 2] = low_halves(low, high);
      a[i / 2][1][2 * pair + i % 2] = high_halves(low, high);
    }
  }
#pragma unroll
  for (int n = 0; n < 4; n += 2)
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int plane = 0; plane < planes<Element>; ++plane) {
        uint4 const b = constants.load(plane, part, step, 2 * half + n / 2, lane);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          auto& tiles = part ? sums.sines[m] : sums.cosines[m];
          warp_mma<__half>(tiles[n], a[m][part][0], a[m][part][1], a[m][part][2], a[m][part][3], b.x, b.y);
          warp_mma<__half>(tiles[n + 1], a[m][part][0], a[m][part][1], a[m][part][2], a[m][part][3], b.z, b.w);
        }
      }
}

// Unfolds, scales, adds the shortcut, stores. `vectors`: groups of eight columns are aligned, and wholly inside or
// outside.
template <bool vectors, typename Element>
__device__ __forceinline__ void warp_store_grid(HalfGrid const& sums, ImageGridArgs<Element> const& p, std::int64_t b,
                                                std::int64_t c, int first_row, int half, int exponent) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4, columns = p.shape.columns.extent;
  int const near_column = 32 * half + 8 * t, far_column = points - 8 - near_column;
  float const shortcut =
      p.shortcut.data ? thread_load<float>(p.shortcut.data, p.shortcut.dtype, c * p.shortcut.stride) : 0.f;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      int const row = first_row + 16 * (g / 4) + 2 * (g % 4) + m + 8 * e;
      if (row >= p.shape.rows.extent) continue;
      Element const* const x = p.x.data + b * p.x.batch + c * p.x.channel + row * p.x.row;
      Element* const to = p.y.data + b * p.y.batch + c * p.y.channel + row * p.y.row;
      float value[2][8];  // [near, far][column, counted from the edge]
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float const even = sums.cosines[m][i / 2][2 * e + i % 2], odd = sums.sines[m][i / 2][2 * e + i % 2];
        value[0][i] = scaled(even + odd, exponent);
        value[1][i] = scaled(even - odd, exponent);
      }
      if (p.shortcut.data)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          int const column = near_column + i, mirrored = points - 1 - column;
          if (column < columns) value[0][i] += shortcut * widened(x[column * p.x.column]);
          if (mirrored < columns) value[1][i] += shortcut * widened(x[mirrored * p.x.column]);
        }
      alignas(16) std::uint32_t near[4], far[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        near[n] = pack<Element>(value[0][2 * n], value[0][2 * n + 1]);
        far[3 - n] = pack<Element>(value[1][2 * n + 1], value[1][2 * n]);
      }
      if constexpr (vectors) {
        if (near_column < columns) *reinterpret_cast<uint4*>(to + near_column) = reinterpret_cast<uint4 const&>(near);
        if (far_column < columns) *reinterpret_cast<uint4*>(to + far_column) = reinterpret_cast<uint4 const&>(far);
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          auto const element = [&](std::uint32_t const(&from)[4]) {
            std::uint32_t const bits = from[i / 2] >> (16 * (i % 2));
            return reinterpret_cast<Element const&>(bits);
          };
          if (near_column + i < columns) to[(near_column + i) * p.y.column] = element(near);
          if (far_column + i < columns) to[(far_column + i) * p.y.column] = element(far);
        }
      }
    }
}

template <bool vectors, typename Element>
__global__ __launch_bounds__(threads, 2) void image_grid_kernel(__grid_constant__ ImageGridArgs<Element> const p) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<ImageGridShared<Element>*>(dynamic_shared);
  auto cosines = spectral::block_make_cosines<points>(shared.cosines);
  block_make_grid_constants(shared.constants, cosines);
  grid_wait_for_predecessor();
  grid_release_successor();
  __syncthreads();
  int const warp = threadIdx.x / 32, half = warp % 2, first_row = warp / 2 * 32;
  int const places = p.chunk.places();
  // The block's stream of steps, as far as it is on its way to shared memory.
  int ahead = p.chunk.next_index(blockIdx.x, gridDim.x), ahead_step = 0;
  auto const stage = [&](uint4* to) {
    if (ahead < places) {
      std::uint32_t const* const from =
          p.spectra.words + std::size_t(p.chunk.at(ahead, places)) * image_words + 16 * ahead_step * points;
#pragma unroll
      for (int i = 0; i < 16 / warps; ++i) {
        int const slot = warps * i + warp, chunk = thread_lane();
        if (chunk / 4 * 16 < p.shape.rows.extent)
          thread_copy_async(to + staged_slot_chunk(slot, chunk), from + slot * points + 4 * chunk);
      }
      if (++ahead_step == slot_steps) {
        ahead_step = 0;
        ahead = p.chunk.next_index(ahead + gridDim.x, gridDim.x);
      }
    }
    thread_commit_copies();
  };
#pragma unroll
  for (int i = 0; i < ring_stages - 1; ++i) stage(shared.ring[i]);
#pragma unroll 1
  for (int index = p.chunk.next_index(blockIdx.x, gridDim.x); index < places;
       index = p.chunk.next_index(index + gridDim.x, gridDim.x)) {
    int const place = p.chunk.at(index, places), unit = place / p.chunk.images, image = place % p.chunk.images;
    HalfGrid sums = {};
#pragma unroll 1
    for (int step = 0; step < slot_steps; ++step) {
      static_assert(slot_steps % ring_stages == 0);
      thread_wait_for_batches<ring_stages - 2>();
      __syncthreads();  // the step has arrived for all, and all have read the one before, which the next copies replace
      stage(shared.ring[(step + ring_stages - 1) % ring_stages]);
      warp_invert_step<Element>(sums, shared.ring[step % ring_stages], shared.constants, step, first_row, half);
    }
    constexpr int log2_points = 7;
    int const exponent =
        -p.spectra.exponents[place] - p.filter_exponents[p.chunk.filter_of_unit(unit)] - filter_headroom - log2_points;
    warp_store_grid<vectors>(sums, p, p.chunk.image(unit, image), p.chunk.first_channel + p.chunk.channel_of_unit(unit),
                             first_row, half, exponent);
  }
}

}  // namespace faltung::long_conv::cuda::spectral_passes
