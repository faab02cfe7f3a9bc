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

// 2^exponent for -126 <= exponent <= 127.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(std::uint32_t(exponent + 127) << 23);
}

// The exponent that brings an element of these magnitude bits into [1, 2); 0 and subnormals have the largest.
template <typename Element>
__device__ __forceinline__ int normalising_exponent(std::uint32_t magnitude);
template <>
__device__ __forceinline__ int normalising_exponent<__nv_bfloat16>(std::uint32_t magnitude) {
  return max(-126, 127 - int(magnitude >> 7));
}
template <>
__device__ __forceinline__ int normalising_exponent<__half>(std::uint32_t magnitude) {
  return 15 - int(magnitude >> 10);
}

// The larger magnitude of each half of a running maximum (without signs) and a pair of elements; NaN counts as nothing.
template <typename Element>
__device__ __forceinline__ std::uint32_t larger_magnitudes(std::uint32_t most, std::uint32_t pair);
template <>
__device__ __forceinline__ std::uint32_t larger_magnitudes<__nv_bfloat16>(std::uint32_t most, std::uint32_t pair) {
  __nv_bfloat162 const larger =
      __hmax2(reinterpret_cast<__nv_bfloat162 const&>(most), __habs2(reinterpret_cast<__nv_bfloat162 const&>(pair)));
  return reinterpret_cast<std::uint32_t const&>(larger);
}
template <>
__device__ __forceinline__ std::uint32_t larger_magnitudes<__half>(std::uint32_t most, std::uint32_t pair) {
  __half2 const larger =
      __hmax2(reinterpret_cast<__half2 const&>(most), __habs2(reinterpret_cast<__half2 const&>(pair)));
  return reinterpret_cast<std::uint32_t const&>(larger);
}

// Pairs of elements times the power of two of a normalising exponent, as halves.
template <typename Element>
class HalfScale;
template <>
class HalfScale<__nv_bfloat16> {
 public:
  __device__ __forceinline__ explicit HalfScale(int exponent) : scale_(power_of_two(exponent)) {}
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t pair) const {
    return half_pair(__uint_as_float(pair << 16) * scale_, __uint_as_float(pair & 0xffff0000u) * scale_);
  }

 private:
  float scale_;
};
template <>
class HalfScale<__half> {
 public:
  __device__ __forceinline__ explicit HalfScale(int exponent) : scale_(__float2half2_rn(power_of_two(exponent))) {}
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t pair) const {
    __half2 const scaled = __hmul2(reinterpret_cast<__half2 const&>(pair), scale_);
    return reinterpret_cast<std::uint32_t const&>(scaled);
  }

 private:
  __half2 scale_;
};

// value 2^exponent for |exponent| <= 252, without leaving the range on the way.
__device__ __forceinline__ float scaled(float value, int exponent) {
  int const half = exponent >> 1;
  return value * power_of_two(half) * power_of_two(exponent - half);
}

}  // namespace faltung::cuda
