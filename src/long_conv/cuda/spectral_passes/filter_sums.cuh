// Towards dk: per slot and row lag d the sum over images b and rows i of dY[b, i] conj X[b, i - d], with the MMA's K =
// 8 images x {re, im}. A warp has a slot and its mirror image, at which even column lags have the same cosine and the
// opposite sine, odd ones the reverse: it leaves their sum and their difference. Multiplying dy's slots for dx here,
// where they are at hand, took 303 us (256 channels); apart, sums and products take 135 + 91.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/spectral_passes/arguments.hpp"
#include "long_conv/cuda/spectral_passes/copy.cuh"
#include "long_conv/cuda/toeplitz/filter_gradient.cuh"

namespace faltung::long_conv::cuda::spectral_passes {

using namespace faltung::cuda;

inline constexpr int sum_warps = 4;

// A slot of x and of dy in shared memory, [image][row_position] with 16-byte chunks in staged order.
struct StagedSlot {
  uint4 x[images * points / 4], dy[images * points / 4];
};
struct alignas(16) FilterSumsShared {
  StagedSlot staged[sum_warps][2];  // of each warp: a slot, and its mirror image
};

// Where four row positions of an image lie: what half a warp reads at a time in different banks.
__device__ __forceinline__ int staged_row_chunk(int image, int chunk) {
  return image * (points / 4) + (chunk ^ (image & 3) * 2);
}

// Where the operands of a slot lie.
struct SlotOperands {
  uint4 const *x, *dy;
};
// Of images t and t + 4: pairs of halves that bring the image's product to the group's power of two.
struct LaneScales {
  std::uint32_t scale[2];
};

// Rows g and g + 8 of the tile of 16 rows, of image t or t + 4.
__device__ __forceinline__ uint2 thread_read_rows(uint4 const* staged, int tile, int e) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  return reinterpret_cast<uint2 const*>(staged + staged_row_chunk(t + 4 * e, 4 * tile + g / 2))[g % 2];
}

__device__ __forceinline__ std::uint32_t half_multiply(std::uint32_t a, std::uint32_t b) {
  __half2 const product = __hmul2(reinterpret_cast<__half2 const&>(a), reinterpret_cast<__half2 const&>(b));
  return reinterpret_cast<std::uint32_t const&>(product);
}

// Re or im of the sums of a slot. Of operands in two halves there are three pairs, the last one hi hi.
template <int tiles, int pairs, int part>
__device__ __forceinline__ void warp_sum_part(float (&lag_sums)[tiles], SlotOperands const (&operands)[pairs],
                                              LaneScales const& scales) {
  float blocks[toeplitz::diagonals<tiles>][4] = {};
#pragma unroll
  for (int pair = 0; pair < pairs; ++pair) {
    std::uint32_t x[2 * tiles][2];
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        uint2 const word = thread_read_rows(operands[pair].x, n, e);
        // im: (re, im) of x to (-im, re)
        x[2 * n][e] = part ? swap_halves(word.x) ^ 0x8000u : word.x;
        x[2 * n + 1][e] = part ? swap_halves(word.y) ^ 0x8000u : word.y;
      }
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
      std::uint32_t dy[4];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        uint2 const word = thread_read_rows(operands[pair].dy, m, e);
        dy[2 * e] = half_multiply(word.x, scales.scale[e]);
        dy[2 * e + 1] = half_multiply(word.y, scales.scale[e]);
      }
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n) {
        warp_mma<__half>(blocks[2 * m - n + 2 * tiles - 1], dy[0], dy[1], dy[2], dy[3], x[n][0], x[n][1]);
      }
    }
  }
  toeplitz::warp_sum_diagonals<tiles>(blocks, lag_sums);
}

template <int tiles, int pairs>
__device__ __forceinline__ void warp_sum_slot(float (&lag_sums)[2][tiles], SlotOperands const (&operands)[pairs],
                                              LaneScales const& scales) {
  warp_sum_part<tiles, pairs, 0>(lag_sums[0], operands, scales);
  warp_sum_part<tiles, pairs, 1>(lag_sums[1], operands, scales);
}

// Powers of two of the products of a unit's images: the least of them all.
__device__ __forceinline__ int warp_unit_exponent(SumsArgs const& p, int unit, int image) {
  int both = 1 << 20;
  if (image < p.chunk.count(unit)) {
    int const place = unit * p.chunk.images + image;
    both = p.x.exponents[place] + p.dy.exponents[place];
  }
#pragma unroll
  for (int other = images / 2; other; other /= 2) both = min(both, __shfl_xor_sync(~0u, both, other));
  return both;
}

// A slot of a unit's x and dy on its way to shared memory: zeros where there is no image, and behind the tiles of rows.
// `image_stride`: in words.
template <int tiles>
__device__ __forceinline__ void warp_stage_slot(StagedSlot& staged, std::uint32_t const* x, std::uint32_t const* dy,
                                                std::size_t first_place, int image_stride, int slot, int count) {
  int const chunk = thread_lane();
  std::size_t const at = first_place * image_stride + slot * points + 4 * chunk;
#pragma unroll
  for (int image = 0; image < images; ++image) {
    bool const there = image < count && chunk < 4 * tiles;
    std::size_t const from = there ? at + image * image_stride : 0;
    thread_copy_or_clear(staged.x + staged_row_chunk(image, chunk), x + from, there);
    thread_copy_or_clear(staged.dy + staged_row_chunk(image, chunk), dy + from, there);
  }
}

// A warp's work: filter by filter, slot by slot, the units of the filter.
struct SumsTurn {
  int item, unit;  // a filter's slot; of the filter
};

// Per multiprocessor. A third one would fit with 168 registers a thread, but spills beside so much shared memory, and
// took 168 us where two take 135 (256 channels).
inline constexpr int sum_blocks = 2;

// `two_halves` says so of the operands of all slots of the launch.
template <int tiles, bool two_halves>
__global__ __launch_bounds__(32 * sum_warps, sum_blocks) void filter_sums_kernel(__grid_constant__ SumsArgs const p) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<FilterSumsShared*>(dynamic_shared);
  grid_wait_for_predecessor();
  grid_release_successor();
  Chunk const& chunk = p.chunk;
  constexpr int pairs_of_slots = slots / 2;
  int const units = chunk.groups / chunk.filters_per_channel;  // of a filter
  int const items = chunk.filters() * p.slots.count, step = gridDim.x * sum_warps;
  auto* const staged = shared.staged[threadIdx.x / 32];
  auto const stage = [&](SumsTurn turn, int mirrored) {
    if (turn.item < items) {
      int const unit = chunk.at(turn.item / p.slots.count, chunk.filters()) * units + turn.unit;
      int const slot = p.slots.first + turn.item % p.slots.count + mirrored * pairs_of_slots;
      warp_stage_slot<tiles>(staged[mirrored], p.x.words, p.dy.words, std::size_t(unit) * chunk.images, image_words,
                             slot, chunk.count(unit));
    }
    thread_commit_copies();
  };
  auto const after = [&](SumsTurn turn) {
    return turn.unit + 1 < units ? SumsTurn{turn.item, turn.unit + 1} : SumsTurn{turn.item + step, 0};
  };
  SumsTurn turn{int(blockIdx.x * sum_warps + threadIdx.x / 32), 0};
  stage(turn, 0);
  stage(turn, 1);
  int running = 0, before = 0;
#pragma unroll 1
  for (; turn.item < items; turn = after(turn)) {
    int const lane = thread_lane(), g = lane / 4, t = lane % 4;
    int const filter = chunk.at(turn.item / p.slots.count, chunk.filters()),
              slot = p.slots.first + turn.item % p.slots.count, unit = filter * units + turn.unit;
    if (turn.unit == 0) {
      running = 1 << 20;
      for (int i = 0; i < units; ++i) running = min(running, warp_unit_exponent(p, filter * units + i, lane % images));
      int* const exponents = p.sums.exponents + filter;
      before = p.first ? running : exponents[(p.parity ^ 1) * p.sums.stride];
      running = min(running, before);
      if (slot == 0 && lane == 0) exponents[p.parity * p.sums.stride] = running;
    }
    int const of_unit = units == 1 && p.first ? running : warp_unit_exponent(p, unit, lane % images);
    LaneScales scales;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      int const image = t + 4 * e, place = unit * chunk.images + image;
      float factor = 0.f;
      if (image < chunk.count(unit))
        factor = power_of_two(max(-126, of_unit - p.x.exponents[place] - p.dy.exponents[place]));
      scales.scale[e] = half_pair(factor, factor);
    }
    float direct[2][tiles], mirrored[2][tiles];
    thread_wait_for_batches<1>();
    __syncwarp();
    SlotOperands const high{staged[0].x, staged[0].dy};
    if constexpr (two_halves) {
      // What the words lack takes the place of their mirror images, which are fetched again.
      thread_wait_for_batches<0>();
      __syncwarp();
      warp_stage_slot<tiles>(staged[1], p.x.low, p.dy.low, std::size_t(unit) * chunk.images, low_image_words, slot,
                             chunk.count(unit));
      thread_commit_copies();
      thread_wait_for_batches<0>();
      __syncwarp();
      SlotOperands const low{staged[1].x, staged[1].dy};
      warp_sum_slot<tiles, 3>(direct, {{low.x, high.dy}, {high.x, low.dy}, high}, scales);
      __syncwarp();
      stage(turn, 1);
    } else {
      warp_sum_slot<tiles, 1>(direct, {high}, scales);
    }
    __syncwarp();
    stage(after(turn), 0);
    thread_wait_for_batches<1>();
    __syncwarp();
    warp_sum_slot<tiles, 1>(mirrored, {{staged[1].x, staged[1].dy}}, scales);
    __syncwarp();
    stage(after(turn), 1);
    bool const first = p.first && turn.unit == 0;
    float const scale_before = turn.unit == 0 ? power_of_two(max(-126, running - before)) : 1.f,
                scale = power_of_two(max(-126, running - of_unit));
    constexpr float headroom = 1.f / (1 << -gradient_headroom);
    int const residue = (g - 2 * t) & 7, beta = (t & 1) * 2 * tiles + (t / 2) * tiles;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      std::size_t const at = ((std::size_t(filter) * 2 + odd) * pairs_of_slots + slot) * row_lags + points -
                             16 * tiles + 8 * beta + residue;
#pragma unroll
      for (int j = 0; j < tiles; ++j) {
        float const sign = odd ? -1.f : 1.f;
        float2 sum{direct[0][j] + sign * mirrored[0][j], direct[1][j] - sign * mirrored[1][j]};
        if (p.sums.words) {
          p.sums.words[at + 8 * j] = half_pair(sum.x * headroom, sum.y * headroom);
          continue;
        }
        float2& to = p.sums.values[at + 8 * j];
        sum = {sum.x * scale, sum.y * scale};
        if (!first) sum = {to.x * scale_before + sum.x, to.y * scale_before + sum.y};
        to = sum;
      }
    }
  }
}

}  // namespace faltung::long_conv::cuda::spectral_passes
