// Complex numbers in registers, and transforms of 2, 4 and 8 of them: output q is the sum over r of v[r] w^(q r), with
// w = exp(-2 pi i / n), or its conjugate for the inverse (not divided by n).
#pragma once
#include <cuda_runtime.h>

namespace faltung::long_conv::cuda::transformed {

template <typename Real>
struct alignas(2 * sizeof(Real)) Complex {
  Real re, im;
};

template <typename Real>
__device__ __forceinline__ Complex<Real> operator+(Complex<Real> a, Complex<Real> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename Real>
__device__ __forceinline__ Complex<Real> operator-(Complex<Real> a, Complex<Real> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename Real>
__device__ __forceinline__ Complex<Real> operator*(Complex<Real> a, Complex<Real> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename Real>
__device__ __forceinline__ Complex<Real> operator*(Complex<Real> a, Real b) {
  return {a.re * b, a.im * b};
}
template <typename Real>
__device__ __forceinline__ Complex<Real> conjugate(Complex<Real> a) {
  return {a.re, -a.im};
}
template <typename To, typename Real>
__device__ __forceinline__ Complex<To> converted(Complex<Real> a) {
  return {To(a.re), To(a.im)};
}

enum class Sense { forward, inverse };

// a times w^1 of a transform of four: -i, or i for the inverse.
template <Sense sense, typename Real>
__device__ __forceinline__ Complex<Real> quarter_turn(Complex<Real> a) {
  if constexpr (sense == Sense::forward) return {a.im, -a.re};
  return {-a.im, a.re};
}

// a times w^1 of a transform of eight.
template <Sense sense, typename Real>
__device__ __forceinline__ Complex<Real> eighth_turn(Complex<Real> a) {
  constexpr Real half = Real(0.70710678118654752440);
  if constexpr (sense == Sense::forward) return {(a.re + a.im) * half, (a.im - a.re) * half};
  return {(a.re - a.im) * half, (a.im + a.re) * half};
}

template <typename Real>
__device__ __forceinline__ void transform_2(Complex<Real>& a, Complex<Real>& b) {
  auto const difference = a - b;
  a = a + b;
  b = difference;
}

template <Sense sense, typename Real>
__device__ __forceinline__ void transform_4(Complex<Real>& a, Complex<Real>& b, Complex<Real>& c, Complex<Real>& d) {
  auto const even = a + c, even_difference = a - c, odd = b + d, odd_difference = quarter_turn<sense>(b - d);
  a = even + odd;
  b = even_difference + odd_difference;
  c = even - odd;
  d = even_difference - odd_difference;
}

// c and d are zero before.
template <Sense sense, typename Real>
__device__ __forceinline__ void transform_4_padded(Complex<Real>& a, Complex<Real>& b, Complex<Real>& c,
                                                   Complex<Real>& d) {
  auto const first = a, second = b, turned = quarter_turn<sense>(b);
  a = first + second;
  b = first + turned;
  c = first - second;
  d = first - turned;
}

// padded: v[4] to v[7] are zero.
template <Sense sense, bool padded = false, typename Real>
__device__ __forceinline__ void transform_8(Complex<Real> (&v)[8]) {
  if constexpr (padded) {
    transform_4_padded<sense>(v[0], v[2], v[4], v[6]);
    transform_4_padded<sense>(v[1], v[3], v[5], v[7]);
  } else {
    transform_4<sense>(v[0], v[2], v[4], v[6]);
    transform_4<sense>(v[1], v[3], v[5], v[7]);
  }
  auto const odd_1 = eighth_turn<sense>(v[3]), odd_2 = quarter_turn<sense>(v[5]),
             odd_3 = eighth_turn<sense>(quarter_turn<sense>(v[7]));
  auto const odd_0 = v[1], even_1 = v[2], even_2 = v[4], even_3 = v[6];
  v[4] = v[0] - odd_0;
  v[0] = v[0] + odd_0;
  v[1] = even_1 + odd_1;
  v[5] = even_1 - odd_1;
  v[2] = even_2 + odd_2;
  v[6] = even_2 - odd_2;
  v[3] = even_3 + odd_3;
  v[7] = even_3 - odd_3;
}

}  // namespace faltung::long_conv::cuda::transformed
