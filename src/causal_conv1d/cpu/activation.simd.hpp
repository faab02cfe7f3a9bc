// SiLU and its derivative on registers. Included by *.simd.cpp only.
#pragma once
#include "causal_conv1d/problem.hpp"
#include "simd/exp.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {

using namespace faltung::simd::FALTUNG_SIMD;

template <typename Storage>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};

#if defined(FALTUNG_SIMD_avx512)
// SiLU of what is rounded to 16 bits next: relative error below 7e-5, a fiftieth of a bf16 unit and a seventh of an
// fp16 one, in fewer operations and without a division. 2^t by a polynomial of degree 4, the reciprocal by the
// processor's estimate. Far below zero the power is infinite and the result 0; minus infinity gives NaN, as does NaN.
template <int Count>
FALTUNG_INLINE void silu_for_16_bits(Vector<float> (&z)[Count]) {
  using V = Vector<float>;
  V const minus_log2e = broadcast(-0x1.715476p+0f), limit = broadcast(200.0f), round = broadcast(0x1.8p+23f);
  // Minimax of 2^f on [-1/2, 1/2], relative error 2.7e-6.
  constexpr float powers[] = {9.5701e-3f, 5.591786e-2f, 2.4024744e-1f, 6.931218e-1f, 9.999993e-1f};
  V t[Count], n[Count], q[Count];
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) t[i] = z[i] * minus_log2e;
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) t[i] = V(_mm512_range_ps(__m512(t[i]), __m512(limit), 2));  // the smaller magnitude
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) n[i] = (t[i] + round) - round;
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) t[i] = t[i] - n[i];
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) q[i] = broadcast(powers[0]);
#pragma GCC unroll 16
  for (int term = 1; term < 5; ++term)
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) q[i] = fma(q[i], t[i], broadcast(powers[term]));
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i)
    z[i] = z[i] * V(_mm512_rcp14_ps(__m512(broadcast(1.0f) + V(_mm512_scalef_ps(__m512(q[i]), __m512(n[i]))))));
}
#endif

// z / (1 + exp(-z)), torch's formula: 0 far below zero, NaN at minus infinity. For what is stored as `Storage` next.
template <typename Storage, Activation activation, typename V, int Count>
FALTUNG_INLINE void activate(V (&z)[Count]) {
  using Real = typename RealOf<Storage>::type;
  if constexpr (activation == Activation::silu) {
#if defined(FALTUNG_SIMD_avx512)
    if constexpr (sizeof(Storage) == 2) return silu_for_16_bits<Count>(z);
#endif
    Vector<Real> e[Count];
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) e[i] = z[i];
    exp_in_step<Real, -1, Count, false>(e);  // a NaN comes back with z
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) z[i] = z[i] / (broadcast<Real>(Real(1)) + e[i]);
  }
}

// d activate / dz
template <typename Real, int Count>
FALTUNG_INLINE void silu_derivative(Vector<Real> (&z)[Count]) {
  Vector<Real> const one = broadcast<Real>(Real(1));
  Vector<Real> e[Count];
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) e[i] = z[i];
  exp_in_step<Real, -1, Count>(e);
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) {
    Vector<Real> const sigmoid = one / (one + e[i]);
    z[i] = sigmoid * fma(z[i], one - sigmoid, one);
  }
}

}  // namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD
