// The causal sum of complex numbers that a thread takes: eight neighbouring outputs of a column.
#pragma once
#include "long_conv/cuda/transformed/complex.cuh"
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {

inline constexpr int outputs = 8, steps_per_sum = 8;  // 64 products a chain

// acc += a b
template <typename Real>
__device__ __forceinline__ void multiply_add(Complex<Real>& acc, Complex<Real> a, Complex<Real> b) {
  acc.re += a.re * b.re;
  acc.re -= a.im * b.im;
  acc.im += a.re * b.im;
  acc.im += a.im * b.re;
}

// x and filter: [points][columns] in shared memory, at the thread's column; x[-7] to x[-1] are zero, the filter's taps
// are padded to a multiple of eight.
template <typename Real>
__device__ void thread_product(Complex<Real> (&total)[outputs], Complex<Real> const* x, Complex<Real> const* filter,
                               int first, int taps, int columns) {
  Complex<Real> sum[outputs], window[2 * outputs - 1];
#pragma unroll
  for (int e = 0; e < outputs; ++e) total[e] = sum[e] = Complex<Real>{};
#pragma unroll
  for (int e = 0; e < outputs - 1; ++e) window[e] = x[(first + 1 + e) * columns];
  for (int d = 0, step = 1; d <= first && d < taps; d += outputs, ++step) {
#pragma unroll
    for (int e = outputs - 2; e >= 0; --e) window[outputs + e] = window[e];
#pragma unroll
    for (int e = 0; e < outputs; ++e) window[e] = x[(first - d - (outputs - 1) + e) * columns];
#pragma unroll
    for (int q = 0; q < outputs; ++q) {
      auto const k = filter[(d + q) * columns];
#pragma unroll
      for (int e = 0; e < outputs; ++e) multiply_add(sum[e], k, window[outputs - 1 + e - q]);
    }
    if (step % steps_per_sum == 0) {
#pragma unroll
      for (int e = 0; e < outputs; ++e) total[e] = total[e] + sum[e], sum[e] = Complex<Real>{};
    }
  }
#pragma unroll
  for (int e = 0; e < outputs; ++e) total[e] = total[e] + sum[e];
}

}  // namespace faltung::long_conv::cuda::transformed
