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

}  // namespace detail

template <typename Real>
FALTUNG_INLINE Vector<Real> exp(Vector<Real> x) {
  using Constants = detail::ExpConstants<Real>;
  using V = Vector<Real>;
  V const low = broadcast<Real>(Constants::low), high = broadcast<Real>(Constants::high);
  x = x > high ? high : x;  // false for NaN, which goes on
  x = x < low ? low : x;
  V const round = broadcast<Real>(Constants::round);
  V const shifted = fma(x, broadcast<Real>(Constants::log2e), round);
  V const n = shifted - round;
  V r = negated_fma(n, broadcast<Real>(Constants::ln2_high), x);
  r = negated_fma(n, broadcast<Real>(Constants::ln2_low), r);
  V q = broadcast<Real>(Constants::q[0]);
#pragma GCC unroll 16
  for (int i = 1; i < int(sizeof Constants::q / sizeof(Real)); ++i) q = fma(q, r, broadcast<Real>(Constants::q[i]));
  V const result = fma(q, r * r, r) + broadcast<Real>(Real(1));
#if defined(FALTUNG_SIMD_avx512)
  if constexpr (sizeof(Real) == 4)
    return V(_mm512_scalef_ps(__m512(result), __m512(n)));
  else
    return V(_mm512_scalef_pd(__m512d(result), __m512d(n)));
#else
  // 2^n in two factors: each is a normal number where 2^n itself may not be.
  using Integers = typename VectorType<typename Constants::Integer, lanes<Real> >::type;
  Integers const exponent = Integers(shifted) - Integers(round), half = exponent >> 1;
  Integers const first = (half + Constants::exponent_bias) << Constants::mantissa_bits;
  Integers const second = (exponent - half + Constants::exponent_bias) << Constants::mantissa_bits;
  return result * V(first) * V(second);
#endif
}

}  // namespace faltung::simd::FALTUNG_SIMD
