// Groups of frequencies of the row axis of cpu.transformed: transposed into lanes, transformed along the middle and the
// column axis, and back. Included by transformed.simd.cpp.
#pragma once
#include <cstddef>

#include "fft/lanes.hpp"
#include "long_conv/cpu/transformed_kernels.hpp"
#include "long_conv/cpu/transformed_rows.hpp"
#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {

// Frequencies [number * lanes, ...) of `half`, transposed into lanes: [middle][column_capacity].
template <typename Real>
void load_group(Geometry<Real> const& g, Grid const& grid, Vector<Real> const* half, Index number,
                Vector<Real>* group) {
  constexpr int n = lanes<Real>;
  Index const count = half_pitch(grid, n), per_middle = grid.pitch / n;
  for (Index middle = 0; middle < grid.middle; ++middle)
    for (Index strip = 0; strip < per_middle; ++strip) {
      Vector<Real> const* const from = half + 2 * (number * n * count + middle * per_middle + strip);
      Vector<Real>* const to = group + 2 * (middle * g.column_capacity + strip * n);
      Index const rest = grid.columns - strip * n, wanted = rest < n ? rest : n;
      for (int part = 0; part < 2; ++part) {
        Vector<Real> rows[n];
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) rows[i] = from[2 * i * count + part];
        transpose<Real>(rows);
        if (wanted == n) {
#pragma GCC unroll 16
          for (int i = 0; i < n; ++i) to[2 * i + part] = rows[i];
        } else {
#pragma GCC unroll 16
          for (int i = 0; i < n; ++i)
            if (i < wanted) to[2 * i + part] = rows[i];
        }
      }
    }
  if (!g.twiddle) return;
  Real const* const twiddle = g.twiddle + 2 * number * grid.columns * n;
  for (Index column = 0; column < grid.columns; ++column) {
    Vector<Real> const re = group[2 * column], im = group[2 * column + 1];
    Vector<Real> const c = load(twiddle + 2 * column * n), s = load(twiddle + (2 * column + 1) * n);
    group[2 * column] = negated_fma(im, s, re * c);
    group[2 * column + 1] = fma(re, s, im * c);
  }
}

template <typename Real>
void store_group(Geometry<Real> const& g, Grid const& grid, Vector<Real>* group, Index number, Vector<Real>* half) {
  constexpr int n = lanes<Real>;
  if (g.twiddle) {
    Real const* const twiddle = g.twiddle + 2 * number * grid.columns * n;
    for (Index column = 0; column < grid.columns; ++column) {
      Vector<Real> const re = group[2 * column], im = group[2 * column + 1];
      Vector<Real> const c = load(twiddle + 2 * column * n), s = load(twiddle + (2 * column + 1) * n);
      group[2 * column] = fma(im, s, re * c);
      group[2 * column + 1] = negated_fma(re, s, im * c);
    }
  }
  Index const count = half_pitch(grid, n), per_middle = grid.pitch / n;
  for (Index middle = 0; middle < grid.middle; ++middle)
    for (Index strip = 0; strip < per_middle; ++strip) {
      Vector<Real>* const to = half + 2 * (number * n * count + middle * per_middle + strip);
      Vector<Real> const* const from = group + 2 * (middle * g.column_capacity + strip * n);
      // Columns of padding are zero: a cyclic row axis transforms them together with true ones.
      Index const rest = grid.columns - strip * n, wanted = rest < n ? rest : n;
      for (int part = 0; part < 2; ++part) {
        Vector<Real> rows[n];
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) rows[i] = i < wanted ? from[2 * i + part] : Vector<Real>{};
        transpose<Real>(rows);
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) to[2 * i * count + part] = rows[i];
      }
    }
}

// The transforms of the middle and the column axis of one group, forward and back.
template <typename Real>
void group_forward(Geometry<Real> const& g, Grid const& grid, Vector<Real>* group) {
  if (g.middle.length > 1)
    for (Index column = 0; column < grid.columns; ++column)
      fft::FALTUNG_SIMD::forward(g.middle, group + 2 * column, g.column_capacity, int(grid.middle));
  if (g.columns.length > 1)
    for (Index middle = 0; middle < g.middle_points; ++middle)
      fft::FALTUNG_SIMD::forward(g.columns, group + 2 * middle * g.column_capacity, 1, int(grid.columns));
}

template <typename Real>
void group_inverse(Geometry<Real> const& g, Grid const& grid, Vector<Real>* group) {
  if (g.columns.length > 1)
    for (Index middle = 0; middle < g.middle_points; ++middle)
      fft::FALTUNG_SIMD::inverse(g.columns, group + 2 * middle * g.column_capacity, 1, int(grid.columns));
  if (g.middle.length > 1)
    for (Index column = 0; column < grid.columns; ++column)
      fft::FALTUNG_SIMD::inverse(g.middle, group + 2 * column, g.column_capacity, int(grid.middle));
}

// Calls body(element of the group, element of its spectrum), both two registers, for every frequency of a group.
template <typename Real, typename Body>
FALTUNG_INLINE void for_each_frequency(Geometry<Real> const& g, Body&& body) {
  for (Index middle = 0; middle < g.middle_points; ++middle)
    for (Index column = 0; column < g.column_points; ++column)
      body(2 * (middle * g.column_capacity + column), 2 * (middle * g.column_points + column));
}

template <typename Real>
Index group_spectrum(Geometry<Real> const& g) {  // registers of one group's spectrum
  return 2 * Index(g.middle_points) * g.column_points;
}

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
