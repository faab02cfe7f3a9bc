// The passes over lanes against the definition of the transform in double, each lane with data of its own, and with
// padded inputs and cropped outputs poisoned with NaN.
#include "fft/lanes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <random>
#include <vector>

#include "fft/plan.hpp"
#include "simd/target.hpp"

namespace faltung::fft::FALTUNG_SIMD {
namespace {

using Complex = std::complex<double>;

template <typename Real>
struct Aligned {
  explicit Aligned(std::size_t elements)
      : data(static_cast<Vector<Real>*>(std::aligned_alloc(64, elements * 2 * 64))), count(elements) {
    poison();
  }
  ~Aligned() { std::free(data); }
  void poison() {
    for (std::size_t i = 0; i < 2 * count; ++i) data[i] = broadcast(Real(NAN));
  }
  Complex get(std::size_t element, int lane) const { return {data[2 * element][lane], data[2 * element + 1][lane]}; }
  void set(std::size_t element, int lane, Complex value) {
    data[2 * element][lane] = Real(value.real());
    data[2 * element + 1][lane] = Real(value.imag());
  }
  Vector<Real>* data;
  std::size_t count;
};

template <typename Real>
void check(int length, int used, int stride, double bound) {
  Plan<Real> const plan(length, registers >= 32 ? 8 : 4);
  Aligned<Real> memory(std::size_t(length) * stride);
  std::mt19937 random(unsigned(length * 1000 + used));
  std::normal_distribution<float> normal;
  std::vector<std::vector<Complex>> x(lanes<Real>, std::vector<Complex>(length));
  for (int lane = 0; lane < lanes<Real>; ++lane)
    for (int n = 0; n < used; ++n) {
      x[lane][n] = {normal(random), normal(random)};
      memory.set(std::size_t(n) * stride, lane, x[lane][n]);
    }
  forward(plan.passes(), memory.data, stride, used);
  std::vector<std::complex<long double>> roots(length);
  for (int n = 0; n < length; ++n) roots[n] = std::polar(1.0L, -2 * std::numbers::pi_v<long double> * n / length);
  double error = 0, norm = 0;
  for (int lane = 0; lane < lanes<Real>; ++lane)
    for (int f = 0; f < length; ++f) {
      std::complex<long double> sum = 0;
      for (int n = 0; n < used; ++n) sum += std::complex<long double>(x[lane][n]) * roots[std::size_t(f) * n % length];
      Complex const expected(sum);
      error += std::norm(memory.get(std::size_t(plan.slot(f)) * stride, lane) - expected);
      norm += std::norm(expected);
    }
  EXPECT_LE(std::sqrt(error / norm), bound) << "forward " << length << " of which " << used << ", stride " << stride;

  inverse(plan.passes(), memory.data, stride, used);
  error = norm = 0;
  for (int lane = 0; lane < lanes<Real>; ++lane)
    for (int n = 0; n < used; ++n) {
      error += std::norm(memory.get(std::size_t(n) * stride, lane) / double(length) - x[lane][n]);
      norm += std::norm(x[lane][n]);
    }
  EXPECT_LE(std::sqrt(error / norm), 2 * bound)
      << "inverse " << length << " of which " << used << ", stride " << stride;
}

TEST(FftLanes, EveryRadixPaddedAndNot) {
  for (int const length : {1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 16, 21, 25, 32, 49, 60, 64, 96, 105, 128, 210, 256, 320})
    for (int const used : {length, (length + 1) / 2, length / 2, length / 2 + 1, 1}) {
      if (used < 1 || used > length) continue;
      check<float>(length, used, 1, 2.5e-7);
      check<double>(length, used, 1, 5e-16);
    }
}

TEST(FftLanes, ElementsApart) {
  for (int const length : {8, 12, 35, 64}) {
    check<float>(length, length / 2, 3, 2.5e-7);
    check<double>(length, length, 5, 5e-16);
  }
}

TEST(FftLanes, LongTransforms) {
  check<float>(2048, 1024, 1, 4e-7);
  check<double>(2048, 2048, 1, 8e-16);
}

}  // namespace
}  // namespace faltung::fft::FALTUNG_SIMD

int main(int argc, char** argv) {
  using faltung::simd::Target;
  if (faltung::simd::target() < Target::FALTUNG_SIMD) {
    std::puts("skipped: this processor lacks the instruction set of this test");
    return 77;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
