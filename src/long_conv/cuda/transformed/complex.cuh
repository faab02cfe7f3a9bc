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

// padded: the second half of v is zero.
template <Sense sense, bool padded, typename Real>
__device__ __forceinline__ void transform_4_of(Complex<Real>& a, Complex<Real>& b, Complex<Real>& c, Complex<Real>& d) {
  if constexpr (padded)
    transform_4_padded<sense>(a, b, c, d);
  else
    transform_4<sense>(a, b, c, d);
}

template <Sense sense, bool padded = false, typename Real>
__device__ __forceinline__ void transform_8(Complex<Real>* v) {
  transform_4_of<sense, padded>(v[0], v[2], v[4], v[6]);
  transform_4_of<sense, padded>(v[1], v[3], v[5], v[7]);
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

// a times w^power of a transform of sixteen, for the powers that it needs.
template <Sense sense, int power, typename Real>
__device__ __forceinline__ Complex<Real> sixteenth_turn(Complex<Real> a) {
  static_assert(power == 1 || power == 2 || power == 3 || power == 4 || power == 6 || power == 9);
  if constexpr (power == 2) return eighth_turn<sense>(a);
  if constexpr (power == 4) return quarter_turn<sense>(a);
  if constexpr (power == 6) return eighth_turn<sense>(quarter_turn<sense>(a));
  // Of the nearest power of i a sixteenth of a turn is taken away: 1 - cosine is several times more exact than cosine.
  constexpr Real less = Real(-0.07612046748871324387), sine = Real(0.38268343236508977173);
  if constexpr (power == 3) a = quarter_turn<sense>(a);
  if constexpr (power == 9) a = {-a.re, -a.im};
  constexpr Real to = (power == 3) == (sense == Sense::forward) ? sine : -sine;
  return {a.re * less + (a.re - a.im * to), a.im * less + (a.im + a.re * to)};
}

// Four by four: v[4 k + n] holds frequency k of the n-th transform of four, then frequency k + 4 n of all.
template <Sense sense, bool padded = false, typename Real>
__device__ __forceinline__ void transform_16(Complex<Real>* v) {
#pragma unroll
  for (int n = 0; n < 4; ++n) transform_4_of<sense, padded>(v[n], v[4 + n], v[8 + n], v[12 + n]);
  v[5] = sixteenth_turn<sense, 1>(v[5]);
  v[6] = sixteenth_turn<sense, 2>(v[6]);
  v[7] = sixteenth_turn<sense, 3>(v[7]);
  v[9] = sixteenth_turn<sense, 2>(v[9]);
  v[10] = sixteenth_turn<sense, 4>(v[10]);
  v[11] = sixteenth_turn<sense, 6>(v[11]);
  v[13] = sixteenth_turn<sense, 3>(v[13]);
  v[14] = sixteenth_turn<sense, 6>(v[14]);
  v[15] = sixteenth_turn<sense, 9>(v[15]);
#pragma unroll
  for (int k = 0; k < 4; ++k) transform_4<sense>(v[4 * k], v[4 * k + 1], v[4 * k + 2], v[4 * k + 3]);
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int n = 0; n < k; ++n) {
      auto const other = v[4 * k + n];
      v[4 * k + n] = v[4 * n + k];
      v[4 * n + k] = other;
    }
}

template <Sense sense, typename Real>
__device__ __forceinline__ void transform_3(Complex<Real>& a, Complex<Real>& b, Complex<Real>& c) {
  auto const sum = b + c, turned = quarter_turn<sense>((b - c) * Real(0.86602540378443864676));
  auto const middle = a - sum * Real(0.5);
  a = a + sum;
  b = middle + turned;
  c = middle - turned;
}

template <Sense sense, typename Real>
__device__ __forceinline__ void transform_5(Complex<Real>& a, Complex<Real>& b, Complex<Real>& c, Complex<Real>& d,
                                            Complex<Real>& e) {
  constexpr Real cosine_1 = Real(0.30901699437494742410), cosine_2 = Real(-0.80901699437494742410);
  constexpr Real sine_1 = Real(0.95105651629515357212), sine_2 = Real(0.58778525229247312917);
  auto const outer = b + e, inner = c + d, outer_difference = b - e, inner_difference = c - d;
  auto const even_1 = a + outer * cosine_1 + inner * cosine_2, even_2 = a + outer * cosine_2 + inner * cosine_1;
  auto const odd_1 = quarter_turn<sense>(outer_difference * sine_1 + inner_difference * sine_2),
             odd_2 = quarter_turn<sense>(outer_difference * sine_2 - inner_difference * sine_1);
  a = a + outer + inner;
  b = even_1 + odd_1;
  e = even_1 - odd_1;
  c = even_2 + odd_2;
  d = even_2 - odd_2;
}

}  // namespace faltung::long_conv::cuda::transformed
