// Elements of tensors whose dtype is known at run time only: one at a time, for code whose time is spent elsewhere and
// for edges, or by way of their type.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "core/dtype.hpp"

namespace faltung::cuda {

template <typename Compute>
__device__ inline Compute thread_load(void const* data, Dtype dtype, std::int64_t at) {
  switch (dtype) {
    case FALTUNG_F64:
      return Compute(static_cast<double const*>(data)[at]);
    case FALTUNG_F32:
      return Compute(static_cast<float const*>(data)[at]);
    case FALTUNG_F16:
      return Compute(__half2float(static_cast<__half const*>(data)[at]));
    default:
      return Compute(__bfloat162float(static_cast<__nv_bfloat16 const*>(data)[at]));
  }
}

// One rounding, from double.
__device__ inline void thread_store(void* data, Dtype dtype, std::int64_t at, double value) {
  switch (dtype) {
    case FALTUNG_F64:
      static_cast<double*>(data)[at] = value;
      return;
    case FALTUNG_F32:
      static_cast<float*>(data)[at] = float(value);
      return;
    case FALTUNG_F16:
      static_cast<__half*>(data)[at] = __double2half(value);
      return;
    default:
      static_cast<__nv_bfloat16*>(data)[at] = __double2bfloat16(value);
      return;
  }
}

// visit(T{}) with the storage type, so that a loop inside knows it.
template <typename Visit>
__device__ __forceinline__ void thread_visit(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case FALTUNG_F64:
      return visit(double{});
    case FALTUNG_F32:
      return visit(float{});
    case FALTUNG_F16:
      return visit(__half{});
    default:
      return visit(__nv_bfloat16{});
  }
}

template <typename Real, typename T>
__device__ __forceinline__ Real thread_widened(T value) {
  if constexpr (sizeof(T) == 2)
    return Real(float(value));
  else
    return Real(value);
}

template <typename T, typename Real>
__device__ __forceinline__ T thread_rounded(Real value) {
  if constexpr (std::is_same_v<T, __half>)
    return std::is_same_v<Real, double> ? __double2half(value) : __float2half(float(value));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return std::is_same_v<Real, double> ? __double2bfloat16(value) : __float2bfloat16(float(value));
  else
    return T(value);
}

}  // namespace faltung::cuda
