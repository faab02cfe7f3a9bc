// Runs the passes of fft/passes.hpp over lanes: every lane is a transform of its own. An element is two registers, real
// then imaginary. Included by *.simd.cpp.
#pragma once
#include <cstddef>

#include "fft/passes.hpp"
#include "simd/vector.hpp"

namespace faltung::fft::FALTUNG_SIMD {

using namespace simd::FALTUNG_SIMD;

// Odd radix: outputs p and radix - p share their products with the sums and the differences of inputs k and radix - k.
template <int radix, typename Real, typename V>
FALTUNG_INLINE void butterfly_odd(V (&re)[radix], V (&im)[radix]) {
  // cos and sin of 2 pi k / radix, k = 1 .. (radix - 1) / 2
  constexpr double cosines[3] = {radix == 3   ? -0.5
                                 : radix == 5 ? 0.30901699437494742410
                                              : 0.62348980185873353053,
                                 radix == 5 ? -0.80901699437494742410 : -0.22252093395631440429,
                                 -0.90096886790241912624};
  constexpr double sines[3] = {radix == 3   ? 0.86602540378443864676
                               : radix == 5 ? 0.95105651629515357212
                                            : 0.78183148246802980871,
                               radix == 5 ? 0.58778525229247312917 : 0.97492791218182360702, 0.43388373911755812048};
  constexpr int half = (radix - 1) / 2;
  V sum_re[half], sum_im[half], difference_re[half], difference_im[half];
  V total_re = re[0], total_im = im[0];
#pragma GCC unroll 4
  for (int k = 0; k < half; ++k) {
    sum_re[k] = re[k + 1] + re[radix - 1 - k];
    sum_im[k] = im[k + 1] + im[radix - 1 - k];
    difference_re[k] = re[k + 1] - re[radix - 1 - k];
    difference_im[k] = im[k + 1] - im[radix - 1 - k];
    total_re += sum_re[k];
    total_im += sum_im[k];
  }
  V out_re[radix], out_im[radix];
#pragma GCC unroll 4
  for (int p = 1; p <= half; ++p) {
    V even_re = re[0], even_im = im[0], odd_re = {}, odd_im = {};
#pragma GCC unroll 4
    for (int k = 1; k <= half; ++k) {
      int const turn = k * p % radix, folded = turn > half ? radix - turn : turn;
      V const c = broadcast(Real(cosines[folded - 1]));
      V const s = broadcast(Real(turn > half ? -sines[folded - 1] : sines[folded - 1]));
      even_re = fma(c, sum_re[k - 1], even_re);
      even_im = fma(c, sum_im[k - 1], even_im);
      odd_re = fma(s, difference_re[k - 1], odd_re);
      odd_im = fma(s, difference_im[k - 1], odd_im);
    }
    out_re[p] = even_re + odd_im;
    out_im[p] = even_im - odd_re;
    out_re[radix - p] = even_re - odd_im;
    out_im[radix - p] = even_im + odd_re;
  }
  re[0] = total_re;
  im[0] = total_im;
#pragma GCC unroll 8
  for (int p = 1; p < radix; ++p) {
    re[p] = out_re[p];
    im[p] = out_im[p];
  }
}

template <typename V>
FALTUNG_INLINE void butterfly_4(V (&re)[4], V (&im)[4]) {
  V const sum02_re = re[0] + re[2], sum02_im = im[0] + im[2];
  V const difference02_re = re[0] - re[2], difference02_im = im[0] - im[2];
  V const sum13_re = re[1] + re[3], sum13_im = im[1] + im[3];
  V const difference13_re = re[1] - re[3], difference13_im = im[1] - im[3];
  re[0] = sum02_re + sum13_re;
  im[0] = sum02_im + sum13_im;
  re[2] = sum02_re - sum13_re;
  im[2] = sum02_im - sum13_im;
  re[1] = difference02_re + difference13_im;
  im[1] = difference02_im - difference13_re;
  re[3] = difference02_re - difference13_im;
  im[3] = difference02_im + difference13_re;
}

// In place, output p in element p. With `half`, inputs radix / 2 .. are zero and not read.
template <int radix, bool half, typename Real, typename V>
FALTUNG_INLINE void butterfly(V (&re)[radix], V (&im)[radix]) {
  if constexpr (radix == 2) {
    V const a_re = re[0], a_im = im[0];
    if constexpr (half) {
      re[1] = a_re;
      im[1] = a_im;
    } else {
      re[0] = a_re + re[1];
      im[0] = a_im + im[1];
      re[1] = a_re - re[1];
      im[1] = a_im - im[1];
    }
  } else if constexpr (radix == 4 && half) {
    V const a_re = re[0], a_im = im[0], b_re = re[1], b_im = im[1];
    re[0] = a_re + b_re;
    im[0] = a_im + b_im;
    re[2] = a_re - b_re;
    im[2] = a_im - b_im;
    re[1] = a_re + b_im;
    im[1] = a_im - b_re;
    re[3] = a_re - b_im;
    im[3] = a_im + b_re;
  } else if constexpr (radix == 4) {
    butterfly_4(re, im);
  } else if constexpr (radix == 8) {
    V even_re[4], even_im[4], odd_re[4], odd_im[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      if constexpr (half) {
        even_re[q] = odd_re[q] = re[q];
        even_im[q] = odd_im[q] = im[q];
      } else {
        even_re[q] = re[q] + re[q + 4];
        even_im[q] = im[q] + im[q + 4];
        odd_re[q] = re[q] - re[q + 4];
        odd_im[q] = im[q] - im[q + 4];
      }
    }
    // odd[q] *= exp(-2 pi i q / 8)
    V const root = broadcast(Real(0.70710678118654752440));
    V const turned1_re = (odd_re[1] + odd_im[1]) * root, turned1_im = (odd_im[1] - odd_re[1]) * root;
    V const turned3_re = (odd_im[3] - odd_re[3]) * root, turned3_im = -(odd_im[3] + odd_re[3]) * root;
    V const turned2_re = odd_im[2], turned2_im = -odd_re[2];
    odd_re[1] = turned1_re;
    odd_im[1] = turned1_im;
    odd_re[2] = turned2_re;
    odd_im[2] = turned2_im;
    odd_re[3] = turned3_re;
    odd_im[3] = turned3_im;
    butterfly_4(even_re, even_im);
    butterfly_4(odd_re, odd_im);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      re[2 * q] = even_re[q];
      im[2 * q] = even_im[q];
      re[2 * q + 1] = odd_re[q];
      im[2 * q + 1] = odd_im[q];
    }
  } else {
    butterfly_odd<radix, Real>(re, im);
  }
}

// One pass of the forward transform. Elements lie `stride` elements apart.
template <int radix, bool half, typename Real>
void forward_pass(Vector<Real>* data, std::ptrdiff_t stride, int length, int m, Real const* twiddle) {
  using V = Vector<Real>;
  std::ptrdiff_t const step = m / radix;
  constexpr int inputs = half ? radix / 2 : radix;
  for (std::ptrdiff_t j = 0; j < step; ++j, twiddle += 2 * (radix - 1))
    for (std::ptrdiff_t block = 0; block < length; block += m) {
      V* const at = data + 2 * stride * (block + j);
      V re[radix], im[radix];
#pragma GCC unroll 8
      for (int q = 0; q < inputs; ++q) {
        re[q] = at[2 * stride * step * q];
        im[q] = at[2 * stride * step * q + 1];
      }
      butterfly<radix, half, Real>(re, im);
      at[0] = re[0];
      at[1] = im[0];
#pragma GCC unroll 8
      for (int p = 1; p < radix; ++p) {
        V* const to = at + 2 * stride * step * p;
        if (j == 0) {
          to[0] = re[p];
          to[1] = im[p];
        } else {
          V const c = broadcast(twiddle[2 * (p - 1)]), s = broadcast(twiddle[2 * (p - 1) + 1]);
          to[0] = negated_fma(im[p], s, re[p] * c);
          to[1] = fma(re[p], s, im[p] * c);
        }
      }
    }
}

// One pass of the inverse: the conjugate butterfly is the butterfly with real and imaginary parts exchanged. With
// `half`, outputs radix / 2 .. are not wanted.
template <int radix, bool half, typename Real>
void inverse_pass(Vector<Real>* data, std::ptrdiff_t stride, int length, int m, Real const* twiddle) {
  using V = Vector<Real>;
  std::ptrdiff_t const step = m / radix;
  constexpr int outputs = half ? radix / 2 : radix;
  for (std::ptrdiff_t j = 0; j < step; ++j, twiddle += 2 * (radix - 1))
    for (std::ptrdiff_t block = 0; block < length; block += m) {
      V* const at = data + 2 * stride * (block + j);
      V re[radix], im[radix];
      re[0] = at[0];
      im[0] = at[1];
#pragma GCC unroll 8
      for (int p = 1; p < radix; ++p) {
        V const* const from = at + 2 * stride * step * p;
        if (j == 0) {
          re[p] = from[0];
          im[p] = from[1];
        } else {
          V const c = broadcast(twiddle[2 * (p - 1)]), s = broadcast(twiddle[2 * (p - 1) + 1]);
          re[p] = fma(from[1], s, from[0] * c);
          im[p] = negated_fma(from[0], s, from[1] * c);
        }
      }
      butterfly<radix, false, Real>(im, re);
#pragma GCC unroll 8
      for (int q = 0; q < outputs; ++q) {
        at[2 * stride * step * q] = re[q];
        at[2 * stride * step * q + 1] = im[q];
      }
    }
}

namespace detail {
template <typename Run>
FALTUNG_INLINE void visit_radix(int radix, Run&& run) {
  switch (radix) {
    case 2:
      return run.template operator()<2>();
    case 3:
      return run.template operator()<3>();
    case 4:
      return run.template operator()<4>();
    case 5:
      return run.template operator()<5>();
    case 7:
      return run.template operator()<7>();
    case 8:
      if constexpr (registers >= 32) return run.template operator()<8>();
  }
}
}  // namespace detail

// data [length], of which the first `used` elements are inputs and the rest counts as zero.
template <typename Real>
void forward(Passes<Real> const& p, Vector<Real>* data, std::ptrdiff_t stride, int used) {
  if (p.count == 0) return;
  bool const half = p.radix[0] % 2 == 0 && used <= p.length / 2;
  int const read = half ? p.length / 2 : p.length;
  for (std::ptrdiff_t n = used; n < read; ++n) data[2 * stride * n] = data[2 * stride * n + 1] = Vector<Real>{};
  for (int i = 0; i < p.count; ++i)
    detail::visit_radix(p.radix[i], [&]<int radix>() {
      if constexpr (radix % 2 == 0)
        if (half && i == 0) return forward_pass<radix, true, Real>(data, stride, p.length, p.block[i], p.twiddle[i]);
      forward_pass<radix, false, Real>(data, stride, p.length, p.block[i], p.twiddle[i]);
    });
}

// Unscaled; elements from `wanted` on are left without meaning.
template <typename Real>
void inverse(Passes<Real> const& p, Vector<Real>* data, std::ptrdiff_t stride, int wanted) {
  bool const half = p.count && p.radix[0] % 2 == 0 && wanted <= p.length / 2;
  for (int i = p.count - 1; i >= 0; --i)
    detail::visit_radix(p.radix[i], [&]<int radix>() {
      if constexpr (radix % 2 == 0)
        if (half && i == 0) return inverse_pass<radix, true, Real>(data, stride, p.length, p.block[i], p.twiddle[i]);
      inverse_pass<radix, false, Real>(data, stride, p.length, p.block[i], p.twiddle[i]);
    });
}

}  // namespace faltung::fft::FALTUNG_SIMD
