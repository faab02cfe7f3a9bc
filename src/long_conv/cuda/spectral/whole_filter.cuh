// Filters of 2N - 1 contiguous rows of as many taps, with all their lags: copied to shared memory as they lie in
// memory, in 16 bytes a thread, and read by words from any parity of address.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"

namespace faltung::long_conv::cuda::spectral {

// From the 16 bytes of the first tap on. The last bytes come one by one: 16 of them may reach beyond the tensor.
template <int N, typename Element>
__device__ __forceinline__ void block_copy_filter(void* to, Element const* k) {
  constexpr int bytes = (2 * N - 1) * (2 * N - 1) * 2, each = 16;
  auto const misaligned = int(reinterpret_cast<std::uintptr_t>(k) % each);
  char const* const from = reinterpret_cast<char const*>(k) - misaligned;
  int const whole = (misaligned + bytes) / each;
  for (int i = threadIdx.x; i < whole; i += Plan<N>::threads)
    thread_copy_async(static_cast<char*>(to) + each * i, from + each * i);
  if (int const at = each * whole + 2 * int(threadIdx.x); at < misaligned + bytes)
    *reinterpret_cast<unsigned short*>(static_cast<char*>(to) + at) =
        *reinterpret_cast<unsigned short const*>(from + at);
}

// A lane's taps of the row lag lane / 4 of the warp, of the filter that lay at k.
template <int N, typename Element>
__device__ __forceinline__ LaneTaps<N> warp_read_taps(std::uint32_t const* filter, Element const* k, int sign) {
  constexpr int words = LaneTaps<N>::words, taps = 2 * N - 1;
  int const lane = thread_lane(), row = thread_warp() * Plan<N>::rows_per_warp + lane / 4;
  LaneTaps<N> result = {};
  if (row == taps) return result;
  int const first = int(reinterpret_cast<std::uintptr_t>(k) % 16) / 2;
  int const centre = first + (N - 1 + sign * (row - (N - 1))) * taps + N - 1, lag = N / 4 * (lane % 4);
  auto const read = [&](std::uint32_t(&pairs)[words], int start) {
    std::uint32_t const* const from = filter + start / 2;
    std::uint32_t word[words + 1];
#pragma unroll
    for (int i = 0; i <= words; ++i) word[i] = from[i];
#pragma unroll
    for (int i = 0; i < words; ++i) pairs[i] = __funnelshift_r(word[i], word[i + 1], start % 2 * 16);
  };
  std::uint32_t rising[words], falling[words];
  read(rising, centre + lag);
  read(falling, centre - lag - (N / 4 - 1));
#pragma unroll
  for (int j = 0; j < words / 2; ++j) {
    std::uint32_t const *const up = rising + 2 * j, *const down = falling + words - 1 - 2 * j;
    std::uint32_t const right[2] = {low_halves(up[0], up[1]), high_halves(up[0], up[1])},
                        left[2] = {high_halves(down[0], down[-1]), low_halves(down[0], down[-1])};
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      result.positive[odd * (words / 2) + j] = sign > 0 ? right[odd] : left[odd];
      result.negative[odd * (words / 2) + j] = sign > 0 ? left[odd] : right[odd];
    }
  }
  return result;
}

template <int N, typename Element>
__device__ __forceinline__ std::uint32_t warp_magnitude(LaneTaps<N> const& taps) {
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < LaneTaps<N>::words; ++i)
    most = larger_magnitudes<Element>(larger_magnitudes<Element>(most, taps.positive[i]), taps.negative[i]);
  return warp_max(most);
}

}  // namespace faltung::long_conv::cuda::spectral
