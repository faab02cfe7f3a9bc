// Pairs of halves in one register, and powers of two as floats.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace faltung::cuda {

__device__ __forceinline__ std::uint32_t half_pair(float low, float high) {
  __half2 const pair = __floats2half2_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}
__device__ __forceinline__ std::uint32_t half_add(std::uint32_t a, std::uint32_t b) {
  __half2 const sum = __hadd2(reinterpret_cast<__half2 const&>(a), reinterpret_cast<__half2 const&>(b));
  return reinterpret_cast<std::uint32_t const&>(sum);
}
__device__ __forceinline__ std::uint32_t half_subtract(std::uint32_t a, std::uint32_t b) {
  __half2 const difference = __hsub2(reinterpret_cast<__half2 const&>(a), reinterpret_cast<__half2 const&>(b));
  return reinterpret_cast<std::uint32_t const&>(difference);
}

// The halves of two registers, rearranged.
__device__ __forceinline__ std::uint32_t swap_halves(std::uint32_t a) { return __byte_perm(a, a, 0x1032); }
__device__ __forceinline__ std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

// A pair of bf16 times a power of two, as halves.
__device__ __forceinline__ std::uint32_t scaled_half_pair(std::uint32_t bf16_pair, float scale) {
  return half_pair(__uint_as_float(bf16_pair << 16) * scale, __uint_as_float(bf16_pair & 0xffff0000u) * scale);
}

// 2^exponent for -126 <= exponent <= 127.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(std::uint32_t(exponent + 127) << 23);
}

// The exponent that brings a bf16 of these magnitude bits into [1, 2); 0 has the largest.
__device__ __forceinline__ int normalising_exponent(std::uint32_t bf16_magnitude) {
  return max(-126, 127 - int(bf16_magnitude >> 7));
}

// value 2^exponent for |exponent| <= 252, without leaving the range on the way.
__device__ __forceinline__ float scaled(float value, int exponent) {
  int const half = exponent >> 1;
  return value * power_of_two(half) * power_of_two(exponent - half);
}

}  // namespace faltung::cuda
