// SiLU and its derivative on registers. Included by *.simd.cpp only.
#pragma once
#include "causal_conv1d/problem.hpp"
#include "simd/exp.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {

using namespace faltung::simd::FALTUNG_SIMD;

// z / (1 + exp(-z)), torch's formula: 0 far below zero, NaN at minus infinity.
template <typename Real, Activation activation, int Count>
FALTUNG_INLINE void activate(Vector<Real> (&z)[Count]) {
  if constexpr (activation == Activation::silu) {
    Vector<Real> e[Count];
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) e[i] = z[i];
    exp_in_step<Real, -1, Count>(e);
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

template <typename Storage>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};

}  // namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD
