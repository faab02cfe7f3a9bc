// One element of a tensor whose dtype is known at run time only: for code whose time is spent elsewhere, and for edges.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

}  // namespace faltung::cuda
