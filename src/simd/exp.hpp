// exp() of a register, the only one: tails go through it in a padded register, so that the bits of an element never
// depend on where it lies. Within 1 ulp where the target fuses multiply-adds, 2 where not; overflows to infinity,
// underflows gradually to 0, NaN stays NaN. Included by *.simd.cpp only.
#pragma once
#include "simd/vector.hpp"

namespace faltung::simd::FALTUNG_SIMD {

namespace detail {

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; exp(r) = 1 + r + r^2 q(r).
template <typename Real>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Integer = std::int32_t;
  static constexpr float low = -104.0f, high = 89.0f;  // beyond: 0 and infinity
  static constexpr float log2e = 0x1.715476p+0f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float round = 0x1.8p+23f;  // adding it leaves the rounded integer in the low bits
  static constexpr int mantissa_bits = 23, exponent_bias = 127;
  // Minimax, relative error 3.1e-9; highest power first.
  static constexpr float q[] = {0x1.6a23cep-10f, 0x1.123a2p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f};
};

template <>
struct ExpConstants<double> {
  using Integer = std::int64_t;
  static constexpr double low = -746.0, high = 710.0;
  static constexpr double log2e = 0x1.71547652b82fep+0, ln2_high = 0x1.62e42fefa3800p-1,
                          ln2_low = 0x1.ef35793c76730p-45;
  static constexpr double round = 0x1.8p+52;
  static constexpr int mantissa_bits = 52, exponent_bias = 1023;
  // 1 / k!, k = 13 .. 2; the first term left out is below 5e-18.
  static constexpr double q[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                 1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                 1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};
};

// Of r = Sign * x the polynomial in x.
template <typename Real, int Sign>
FALTUNG_INLINE constexpr Real signed_power(int term) {
  constexpr int terms = int(sizeof ExpConstants<Real>::q / sizeof(Real));
  return Sign < 0 && (terms - 1 - term) % 2 ? -ExpConstants<Real>::q[term] : ExpConstants<Real>::q[term];
}

// a * b - c
FALTUNG_INLINE Vector<float> fused_subtract(Vector<float> a, Vector<float> b, Vector<float> c) {
#if defined(FALTUNG_SIMD_avx512)
  return Vector<float>(_mm512_fmsub_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(FALTUNG_SIMD_avx2)
  return Vector<float>(_mm256_fmsub_ps(__m256(a), __m256(b), __m256(c)));
#else
  return fma(a, b, -c);
#endif
}
FALTUNG_INLINE Vector<double> fused_subtract(Vector<double> a, Vector<double> b, Vector<double> c) {
  return fma(a, b, -c);
}

}  // namespace detail

// Several registers in step: a processor looks ahead over a hundred operations or so, which is one exp() and a half
// when they come one by one, each operation waiting for the last.
// x becomes exp(Sign * x), Sign being 1 or -1: the same operations on the same magnitudes, hence exp(-x) has the bits
// of exp() of -x.
// Without KeepsNan, exp of NaN is any number.
template <typename Real, int Sign, int Count, bool KeepsNan = true>
FALTUNG_INLINE void exp_in_step(Vector<Real> (&x)[Count]) {
  using Constants = detail::ExpConstants<Real>;
  using V = Vector<Real>;
  constexpr int terms = int(sizeof Constants::q / sizeof(Real));
  V const low = broadcast<Real>(Sign > 0 ? Constants::low : -Constants::high);
  V const high = broadcast<Real>(Sign > 0 ? Constants::high : -Constants::low);
  V const log2e = broadcast<Real>(Sign * Constants::log2e), round = broadcast<Real>(Constants::round),
          one = broadcast<Real>(Real(1));
  V const ln2_high = broadcast<Real>(-Sign * Constants::ln2_high),
          ln2_low = broadcast<Real>(-Sign * Constants::ln2_low);
  V shifted[Count], n[Count], q[Count];
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) {
    // A NaN goes on: false of every comparison, and the second operand of the instructions.
#if defined(FALTUNG_SIMD_avx512)
    if constexpr (sizeof(Real) == 4 && !KeepsNan)
      x[i] = V(_mm512_range_ps(__m512(x[i]), __m512(broadcast<Real>(-Constants::low)), 2));  // the smaller magnitude
    else if constexpr (sizeof(Real) == 4)
      x[i] = V(_mm512_max_ps(__m512(low), _mm512_min_ps(__m512(high), __m512(x[i]))));
    else
      x[i] = V(_mm512_max_pd(__m512d(low), _mm512_min_pd(__m512d(high), __m512d(x[i]))));
#else
    x[i] = x[i] > high ? high : x[i];
    x[i] = x[i] < low ? low : x[i];
#endif
  }
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) shifted[i] = fma(x[i], log2e, round);
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) n[i] = shifted[i] - round;
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) x[i] = fma(n[i], ln2_high, x[i]);
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) x[i] = fma(n[i], ln2_low, x[i]);
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) q[i] = broadcast<Real>(detail::signed_power<Real, Sign>(0));
#pragma GCC unroll 16
  for (int term = 1; term < terms; ++term) {
    V const next = broadcast<Real>(detail::signed_power<Real, Sign>(term));
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) q[i] = fma(q[i], x[i], next);
  }
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i)
    q[i] = Sign > 0 ? fma(q[i], x[i] * x[i], x[i]) : detail::fused_subtract(q[i], x[i] * x[i], x[i]);
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) {
    V const result = q[i] + one;
#if defined(FALTUNG_SIMD_avx512)
    if constexpr (sizeof(Real) == 4)
      x[i] = V(_mm512_scalef_ps(__m512(result), __m512(n[i])));
    else
      x[i] = V(_mm512_scalef_pd(__m512d(result), __m512d(n[i])));
#else
    // 2^n in two factors: each is a normal number where 2^n itself may not be.
    using Integers = typename VectorType<typename Constants::Integer, lanes<Real> >::type;
    Integers const exponent = Integers(shifted[i]) - Integers(round), half = exponent >> 1;
    Integers const first = (half + Constants::exponent_bias) << Constants::mantissa_bits;
    Integers const second = (exponent - half + Constants::exponent_bias) << Constants::mantissa_bits;
    x[i] = result * V(first) * V(second);
#endif
  }
}

template <typename Real>
FALTUNG_INLINE Vector<Real> exp(Vector<Real> x) {
  Vector<Real> one[1] = {x};
  exp_in_step<Real, 1, 1>(one);
  return one[0];
}

}  // namespace faltung::simd::FALTUNG_SIMD
