// The operator's arithmetic, one function for each step, so that the bits of a token do not depend on the kernel that
// computes it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "causal_conv1d/problem.hpp"
#include "core/dispatch.hpp"
#include "core/error.hpp"

namespace faltung::causal_conv1d::cuda {

template <typename Storage>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};
template <typename Storage>
using Real = typename RealOf<Storage>::type;

// visit.template operator()<T>() with the device's storage type of a floating dtype.
template <typename Visitor>
void visit_storage(Dtype dtype, Visitor&& visit) {
  switch (dtype) {
    case FALTUNG_F64:
      return visit.template operator()<double>();
    case FALTUNG_F32:
      return visit.template operator()<float>();
    case FALTUNG_F16:
      return visit.template operator()<__half>();
    case FALTUNG_BF16:
      return visit.template operator()<__nv_bfloat16>();
    default:
      fail(FALTUNG_INVALID_TYPE, "expected a floating dtype, got ", name_of(dtype));
  }
}

// Of what the tuned kernels take (fits.hpp).
// visit.template operator()<Storage, Width>()
template <int... widths, typename Visitor>
void visit_widths(Problem const& p, Visitor&& visit) {
  visit_int<widths...>(p.width, "width", [&]<int Width> {
    switch (p.x_dtype) {
      case FALTUNG_F32:
        return visit.template operator()<float, Width>();
      case FALTUNG_F16:
        return visit.template operator()<__half, Width>();
      default:
        return visit.template operator()<__nv_bfloat16, Width>();
    }
  });
}

template <typename Visitor>
void visit_tuned(Problem const& p, Visitor&& visit) {
  visit_widths<2, 3, 4>(p, visit);
}

__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename Storage>
__device__ __forceinline__ Storage narrow(Real<Storage> value);
template <>
__device__ __forceinline__ double narrow<double>(double value) {
  return value;
}
template <>
__device__ __forceinline__ float narrow<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half narrow<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// 1 / (1 + exp(-z)) for results of this storage type: exactly 0 far below zero, NaN for NaN. In fp32 within 3 ulp down
// to -87, 0 below. For 16 bits two special instructions, whose error of |z| 2^-24 is far below a rounding.
template <typename Storage>
__device__ __forceinline__ float thread_sigmoid(float z) {
  float e, inverse;
  if constexpr (sizeof(Storage) == 2)
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(__fmul_rn(z, -1.4426950408889634f)));
  else
    e = expf(-z);
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(__fadd_rn(1.0f, e)));
  return inverse;
}
template <typename Storage>
__device__ __forceinline__ double thread_sigmoid(double z) {
  return 1.0 / (1.0 + exp(-z));
}

// Products and sums below are spelled out, so that no compiler contracts them differently from one kernel to the next.
__device__ __forceinline__ float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double multiply(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }

// torch's formula z sigmoid(z): a zero far below, NaN at minus infinity.
template <typename Storage>
__device__ __forceinline__ Real<Storage> thread_silu(Real<Storage> z) {
  return multiply(z, thread_sigmoid<Storage>(z));
}

// d silu / dz
template <typename Storage>
__device__ __forceinline__ Real<Storage> thread_silu_derivative(Real<Storage> z) {
  Real<Storage> const s = thread_sigmoid<Storage>(z);
  return s * fma(z, Real<Storage>(1) - s, Real<Storage>(1));
}

}  // namespace faltung::causal_conv1d::cuda
