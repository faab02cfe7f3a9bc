// The row axis of a staged plane of cpu.transformed, real to complex and back, lanes over columns. Included by
// transformed.simd.cpp.
#pragma once
#include <cstddef>

#include "fft/lanes.hpp"
#include "long_conv/cpu/transformed_kernels.hpp"
#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {

using namespace simd::FALTUNG_SIMD;
using Index = std::ptrdiff_t;

template <typename Real>
Index strips(Grid const& grid) {
  return grid.middle * grid.pitch / lanes<Real>;
}

// The rows of a cyclic axis: two strips are the real and the imaginary part of one transform, told apart by their
// symmetry.
template <typename Real>
void hermitian_forward(Geometry<Real> const& g, Grid const& grid, Real const* plane, Vector<Real>* half,
                       Vector<Real>* work) {
  using V = Vector<Real>;
  Index const pitch = grid.middle * grid.pitch, length = g.rows.length, count = half_pitch(grid, lanes<Real>);
  V const one_half = broadcast(Real(0.5));
  for (Index strip = 0; strip < strips<Real>(grid); strip += 2) {
    bool const pair = strip + 1 < strips<Real>(grid);
    Real const* const column = plane + strip * lanes<Real>;
    for (Index n = 0; n < length; ++n) {
      work[2 * n] = load(column + n * pitch);
      work[2 * n + 1] = pair ? load(column + n * pitch + lanes<Real>) : V{};
    }
    fft::FALTUNG_SIMD::forward(g.rows, work, 1, int(length));
    for (Index f = 0; f < g.frequencies; ++f) {
      V const re = work[2 * g.slot[f]], im = work[2 * g.slot[f] + 1];
      V* const to = half + 2 * (f * count + strip);
      if (!pair) {
        to[0] = re;
        to[1] = im;
        continue;
      }
      Index const mirror = g.slot[g.frequencies + f];
      V const mirror_re = work[2 * mirror], mirror_im = work[2 * mirror + 1];
      to[0] = (re + mirror_re) * one_half;
      to[1] = (im - mirror_im) * one_half;
      to[2] = (im + mirror_im) * one_half;
      to[3] = (mirror_re - re) * one_half;
    }
  }
}

// The inverse, but for the factor `length`.
template <typename Real>
void hermitian_inverse(Geometry<Real> const& g, Grid const& grid, Vector<Real> const* half, Real* plane,
                       Vector<Real>* work) {
  using V = Vector<Real>;
  Index const pitch = grid.middle * grid.pitch, length = g.rows.length, count = half_pitch(grid, lanes<Real>);
  for (Index strip = 0; strip < strips<Real>(grid); strip += 2) {
    bool const pair = strip + 1 < strips<Real>(grid);
    Real* const column = plane + strip * lanes<Real>;
    for (Index f = 0; f < g.frequencies; ++f) {
      V const* const from = half + 2 * (f * count + strip);
      Index const own = g.slot[f], mirror = g.slot[g.frequencies + f];
      V const a_re = from[0], a_im = from[1], b_re = pair ? from[2] : V{}, b_im = pair ? from[3] : V{};
      work[2 * mirror] = a_re + b_im;
      work[2 * mirror + 1] = b_re - a_im;
      work[2 * own] = a_re - b_im;
      work[2 * own + 1] = a_im + b_re;
    }
    fft::FALTUNG_SIMD::inverse(g.rows, work, 1, int(length));
    for (Index n = 0; n < grid.rows; ++n) {
      store(column + n * pitch, work[2 * n]);
      if (pair) store(column + n * pitch + lanes<Real>, work[2 * n + 1]);
    }
  }
}

// Rows of a plane -> complex rows of `half`.
template <typename Real>
void real_forward(Geometry<Real> const& g, Grid const& grid, Real const* plane, Vector<Real>* half,
                  Vector<Real>* work) {
  using V = Vector<Real>;
  if (g.real_axis == RealAxis::hermitian) return hermitian_forward(g, grid, plane, half, work);
  Index const pitch = grid.middle * grid.pitch, length = g.rows.length, count = half_pitch(grid, lanes<Real>);
  for (Index strip = 0; strip < strips<Real>(grid); ++strip) {
    Real const* const column = plane + strip * lanes<Real>;
    Index const used = grid.rows < length ? grid.rows : length, wrapped = grid.rows - used;
    auto const row = [&](Index n) __attribute__((always_inline)) {
      V const x = load(column + n * pitch);
      return n < grid.negated_from ? x : -x;
    };
    for (Index n = 0; n < wrapped; ++n) {
      V const c = broadcast(g.turn[2 * n]), s = broadcast(g.turn[2 * n + 1]);
      V const a = row(n), b = row(n + length);
      work[2 * n] = fma(b, s, a * c);
      work[2 * n + 1] = negated_fma(b, c, a * s);
    }
    for (Index n = wrapped; n < used; ++n) {
      V const x = row(n);
      work[2 * n] = x * broadcast(g.turn[2 * n]);
      work[2 * n + 1] = x * broadcast(g.turn[2 * n + 1]);
    }
    fft::FALTUNG_SIMD::forward(g.rows, work, 1, int(used));
    for (Index f = 0; f < length; ++f) {
      half[2 * (f * count + strip)] = work[2 * f];
      half[2 * (f * count + strip) + 1] = work[2 * f + 1];
    }
  }
}

// Complex rows of `half` -> rows of a plane, the inverse of real_forward but for the factor `length`.
template <typename Real>
void real_inverse(Geometry<Real> const& g, Grid const& grid, Vector<Real> const* half, Real* plane,
                  Vector<Real>* work) {
  using V = Vector<Real>;
  if (g.real_axis == RealAxis::hermitian) return hermitian_inverse(g, grid, half, plane, work);
  Index const pitch = grid.middle * grid.pitch, length = g.rows.length, count = half_pitch(grid, lanes<Real>);
  for (Index strip = 0; strip < strips<Real>(grid); ++strip) {
    Real* const column = plane + strip * lanes<Real>;
    for (Index f = 0; f < length; ++f) {
      work[2 * f] = half[2 * (f * count + strip)];
      work[2 * f + 1] = half[2 * (f * count + strip) + 1];
    }
    Index const used = grid.rows < length ? grid.rows : length, wrapped = grid.rows - used;
    fft::FALTUNG_SIMD::inverse(g.rows, work, 1, int(used));
    for (Index n = 0; n < used; ++n) {
      V const c = broadcast(g.turn[2 * n]), s = broadcast(g.turn[2 * n + 1]);
      V const re = work[2 * n], im = work[2 * n + 1];
      V const a = fma(im, s, re * c), b = negated_fma(im, c, re * s);
      store(column + n * pitch, n < grid.negated_from ? a : -a);
      if (n < wrapped) store(column + (n + length) * pitch, n + length < grid.negated_from ? b : -b);
    }
  }
}

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
