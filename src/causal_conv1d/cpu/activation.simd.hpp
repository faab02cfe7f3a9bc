// SiLU and its derivative on registers. Included by *.simd.cpp only.
#pragma once
#include "causal_conv1d/problem.hpp"
#include "simd/exp.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {

using namespace faltung::simd::FALTUNG_SIMD;

// z / (1 + exp(-z)), torch's formula: 0 far below zero, NaN at minus infinity.
template <typename Real, Activation activation>
FALTUNG_INLINE Vector<Real> activate(Vector<Real> z) {
  if constexpr (activation == Activation::silu)
    return z / (broadcast<Real>(Real(1)) + faltung::simd::FALTUNG_SIMD::exp<Real>(-z));
  else
    return z;
}

template <typename Real>
FALTUNG_INLINE Vector<Real> silu_derivative(Vector<Real> z) {
  Vector<Real> const one = broadcast<Real>(Real(1));
  Vector<Real> const sigmoid = one / (one + faltung::simd::FALTUNG_SIMD::exp<Real>(-z));
  return sigmoid * fma(z, one - sigmoid, one);
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
