// Roots of unity, exp(-2 pi i m / 256), computed by the compiler and rounded once.
#pragma once
#include "long_conv/cuda/transformed/complex.cuh"

namespace faltung::long_conv::cuda::onchip {

using transformed::Complex;

inline constexpr int root_count = 256;

namespace detail {

// Of an angle of at most pi / 4; the terms left out are below 1e-19.
constexpr double sine_series(double x) {
  double term = x, sum = 0;
  for (int n = 1; n < 20; n += 2) {
    sum += term;
    term *= -x * x / double((n + 1) * (n + 2));
  }
  return sum;
}
constexpr double cosine_series(double x) {
  double term = 1, sum = 0;
  for (int n = 0; n < 20; n += 2) {
    sum += term;
    term *= -x * x / double((n + 1) * (n + 2));
  }
  return sum;
}
constexpr double cosine(int m) {
  constexpr double pi = 3.14159265358979323846;
  m = (m % root_count + root_count) % root_count;
  if (m > root_count / 2) m = root_count - m;
  if (m > root_count / 4) return -cosine(root_count / 2 - m);
  return m > root_count / 8 ? sine_series((root_count / 4 - m) * (2 * pi / root_count))
                            : cosine_series(m * (2 * pi / root_count));
}

}  // namespace detail

template <typename Real>
constexpr Complex<Real> root(int m) {
  return {Real(detail::cosine(m)), Real(-detail::cosine(m - root_count / 4))};
}

// a times the root. Of the nearest power of i it takes away what is left, 1 - cosine and sine: these constants are
// several times more exact than cosine and sine, whose errors would be the largest of a transform.
template <int m, typename Real>
__device__ __forceinline__ Complex<Real> turned(Complex<Real> a) {
  constexpr int quarters = ((m + root_count / 8 + 4 * root_count) / (root_count / 4)) % 4;
  constexpr int rest = (m + 4 * root_count + root_count / 8) % (root_count / 4) - root_count / 8;
  if constexpr (quarters == 1) a = {a.im, -a.re};
  if constexpr (quarters == 2) a = {-a.re, -a.im};
  if constexpr (quarters == 3) a = {-a.im, a.re};
  if constexpr (rest == 0) return a;
  constexpr Real less = Real(detail::cosine(rest) - 1), sine = root<Real>(rest).im;
  return {a.re * less + (a.re - a.im * sine), a.im * less + (a.im + a.re * sine)};
}

template <typename Real>
struct Roots {
  Complex<Real> values[root_count];
  constexpr Roots() : values{} {
    for (int m = 0; m < root_count; ++m) values[m] = root<Real>(m);
  }
};

template <typename Real>
__device__ constexpr Roots<Real> roots{};

}  // namespace faltung::long_conv::cuda::onchip
