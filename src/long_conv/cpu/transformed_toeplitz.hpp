// Causal axes of cpu.transformed, exactly: sums over this and earlier points alone. Included by transformed.simd.cpp.
#pragma once
#include <cstddef>

#include "fft/lanes.hpp"
#include "long_conv/cpu/transformed_groups.hpp"
#include "long_conv/cpu/transformed_kernels.hpp"
#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {

// Terms of a chain of sums in fp32; longer sums are made of such chains.
constexpr Index chain = 64;

// x[row][t + i] = sum over distances of x[row - d0][t + i - d1] k[d0][d1], first <= d1 <= reach + i, d1 < pitch of k,
// d0 < rows of k, for `outputs` neighbours i.
template <int outputs, typename Real>
FALTUNG_INLINE void toeplitz_block(Vector<Real>* x, Index x_pitch, Vector<Real> const* k, Index rows, Index k_pitch,
                                   Index row, Index t, Index reach, Index first) {
  using V = Vector<Real>;
  V total_re[outputs] = {}, total_im[outputs] = {};
  for (Index distance = 0; distance <= row && distance < rows; ++distance) {
    V const* const from = x + 2 * ((row - distance) * x_pitch + t);
    V const* const filter = k + 2 * distance * k_pitch;
    auto const add = [&](Index d, Index least, V(&re)[outputs], V(&im)[outputs]) __attribute__((always_inline)) {
      V const k_re = filter[2 * d], k_im = filter[2 * d + 1];
#pragma GCC unroll 4
      for (int i = 0; i < outputs; ++i) {
        if (i < least) continue;
        V const x_re = from[2 * (i - d)], x_im = from[2 * (i - d) + 1];
        re[i] = negated_fma(x_im, k_im, fma(x_re, k_re, re[i]));
        im[i] = fma(x_im, k_re, fma(x_re, k_im, im[i]));
      }
    };
    Index const last = reach + 1 < k_pitch ? reach + 1 : k_pitch;
    for (Index d0 = first; d0 < last; d0 += chain) {
      V re[outputs] = {}, im[outputs] = {};
      Index const end = d0 + chain <= last ? d0 + chain : last;
      for (Index d = d0; d < end; ++d) add(d, 0, re, im);
#pragma GCC unroll 4
      for (int i = 0; i < outputs; ++i) {
        total_re[i] += re[i];
        total_im[i] += im[i];
      }
    }
    // The last distances reach before the first column for some of the outputs.
    V re[outputs] = {}, im[outputs] = {};
#pragma GCC unroll 4
    for (int more = 1; more < outputs; ++more)
      if (reach + more >= first && reach + more < k_pitch) add(reach + more, more, re, im);
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i) {
      total_re[i] += re[i];
      total_im[i] += im[i];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < outputs; ++i) {
    x[2 * (row * x_pitch + t + i)] = total_re[i];
    x[2 * (row * x_pitch + t + i) + 1] = total_im[i];
  }
}

// The product of a group with a filter's spectrum where columns (and perhaps the middle axis) are Toeplitz; in place,
// from the last output to the first, since an output needs earlier inputs only.
template <typename Real>
void toeplitz_product(Geometry<Real> const& g, Vector<Real> const* k, Vector<Real>* x) {
  Index const first = g.column_kind == AxisKind::strict_toeplitz ? 1 : 0;
  bool const rows = g.middle_kind == AxisKind::toeplitz;
  auto const run = [&](Vector<Real>* data, Vector<Real> const* filter, Index row) {
    Index const k_rows = rows ? g.middle_points : 1;
    Index t = g.image.columns;
    for (; t % 4 != 0; --t)
      toeplitz_block<1, Real>(data, g.column_capacity, filter, k_rows, g.column_points, row, t - 1, (t - 1) % g.period,
                              first);
    for (; t > 0; t -= 4)
      toeplitz_block<4, Real>(data, g.column_capacity, filter, k_rows, g.column_points, row, t - 4, (t - 4) % g.period,
                              first);
  };
  for (Index middle = (rows ? g.image.middle : g.middle_points) - 1; middle >= 0; --middle) {
    if (rows)
      run(x, k, middle);
    else
      run(x + 2 * middle * g.column_capacity, k + 2 * middle * g.column_points, 0);
  }
}

// y += the product of each block with itself: y[middle][r] += sum of x[middle - d][s] taps[d][r - s], s <= r, lanes
// over blocks.
template <typename Real>
void add_within_blocks(Geometry<Real> const& g, Real const* taps, Real const* x, Real* y) {
  using V = Vector<Real>;
  constexpr int outputs = 8;
  Grid const& grid = g.image;
  Index const pitch = grid.middle * grid.pitch;
  for (Index middle = 0; middle < grid.middle; ++middle)
    for (Index strip = 0; strip < grid.pitch; strip += lanes<Real>)
      for (Index r = 0; r < grid.rows; r += outputs) {
        Index const rows = grid.rows - r < outputs ? grid.rows - r : outputs;
        V total[outputs] = {};
        for (Index distance = 0; distance <= middle && distance < g.middle_points; ++distance) {
          Real const* const from = x + (middle - distance) * grid.pitch + strip;
          Real const* const k = taps + distance * grid.rows + r;
          for (Index s0 = 0; s0 <= r; s0 += chain) {
            V sum[outputs] = {};
            Index const end = s0 + chain <= r + 1 ? s0 + chain : r + 1;
            if (rows == outputs) {
              for (Index s = s0; s < end; ++s) {
                V const value = load(from + s * pitch);
#pragma GCC unroll 8
                for (int i = 0; i < outputs; ++i) sum[i] = fma(value, broadcast(k[i - s]), sum[i]);
              }
            } else {
              for (Index s = s0; s < end; ++s)
                for (int i = 0; i < rows; ++i) sum[i] = fma(load(from + s * pitch), broadcast(k[i - s]), sum[i]);
            }
#pragma GCC unroll 8
            for (int i = 0; i < outputs; ++i) total[i] += sum[i];
          }
          for (Index s = r + 1; s < r + rows; ++s) {
            V const value = load(from + s * pitch);
            for (Index i = s - r; i < rows; ++i) total[i] = fma(value, broadcast(k[i - s]), total[i]);
          }
        }
        for (Index i = 0; i < rows; ++i) {
          Real* const to = y + (r + i) * pitch + middle * grid.pitch + strip;
          store(to, load(to) + total[i]);
        }
      }
}

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
