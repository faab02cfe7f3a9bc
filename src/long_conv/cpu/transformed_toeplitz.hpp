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

// A Toeplitz product over two axes: x [rows][pitch] with k [rows][pitch], distances from `first` on and below `rows`
// and `pitch` of k.
template <typename Real>
struct Toeplitz {
  Vector<Real>* x;
  Index x_pitch;
  Vector<Real> const* k;
  Index k_rows, k_pitch, first_row, first;
};

// x[row][t + i] = sum over distances of x[row - d0][t + i - d1] k[d0][d1], d1 <= reach + i, for `outputs` neighbours i.
template <int outputs, typename Real>
FALTUNG_INLINE void toeplitz_block(Toeplitz<Real> const& p, Index row, Index t, Index reach) {
  using V = Vector<Real>;
  V total_re[outputs] = {}, total_im[outputs] = {}, re[outputs] = {}, im[outputs] = {};
  Index terms = 0;  // of the chain in re and im
  auto const flush = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i) {
      total_re[i] += re[i];
      total_im[i] += im[i];
      re[i] = im[i] = V{};
    }
    terms = 0;
  };
  Index const last = reach + 1 < p.k_pitch ? reach + 1 : p.k_pitch;
  for (Index distance = p.first_row; distance <= row && distance < p.k_rows; ++distance) {
    V const* const from = p.x + 2 * ((row - distance) * p.x_pitch + t);
    V const* const filter = p.k + 2 * distance * p.k_pitch;
    auto const add = [&](Index d, Index least) __attribute__((always_inline)) {
      V const k_re = filter[2 * d], k_im = filter[2 * d + 1];
#pragma GCC unroll 4
      for (int i = 0; i < outputs; ++i) {
        if (i < least) continue;
        V const x_re = from[2 * (i - d)], x_im = from[2 * (i - d) + 1];
        re[i] = negated_fma(x_im, k_im, fma(x_re, k_re, re[i]));
        im[i] = fma(x_im, k_re, fma(x_re, k_im, im[i]));
      }
    };
    for (Index d0 = p.first; d0 < last; d0 += chain) {
      Index const end = d0 + chain <= last ? d0 + chain : last;
      if (terms + end - d0 > chain) flush();
      terms += end - d0;
      for (Index d = d0; d < end; ++d) add(d, 0);
    }
    // The last distances reach before the first column for some of the outputs.
    if (terms + outputs - 1 > chain) flush();
    terms += outputs - 1;
#pragma GCC unroll 4
    for (int more = 1; more < outputs; ++more)
      if (reach + more >= p.first && reach + more < p.k_pitch) add(reach + more, more);
  }
#pragma GCC unroll 4
  for (int i = 0; i < outputs; ++i) {
    p.x[2 * (row * p.x_pitch + t + i)] = total_re[i] + re[i];
    p.x[2 * (row * p.x_pitch + t + i) + 1] = total_im[i] + im[i];
  }
}

// One row of outputs, in place from the last to the first, since an output needs earlier inputs only.
template <typename Real>
FALTUNG_INLINE void toeplitz_row(Toeplitz<Real> const& p, Index row, Index columns, Index period) {
  Index t = columns;
  for (; t % 4 != 0; --t) toeplitz_block<1, Real>(p, row, t - 1, (t - 1) % period);
  for (; t > 0; t -= 4) toeplitz_block<4, Real>(p, row, t - 4, (t - 4) % period);
}

// The product of a group with a filter's spectrum where columns (and perhaps the middle axis) are Toeplitz, in place.
template <typename Real>
void toeplitz_product(Geometry<Real> const& g, Vector<Real> const* k, Vector<Real>* x) {
  Index const first = g.column_kind == AxisKind::strict_toeplitz ? 1 : 0;
  bool const rows = g.middle_kind == AxisKind::toeplitz;
  for (Index middle = (rows ? g.image.middle : g.middle_points) - 1; middle >= 0; --middle)
    if (rows)
      toeplitz_row<Real>({x, g.column_capacity, k, g.middle_points, g.column_points, 0, first}, middle, g.image.columns,
                         g.period);
    else
      toeplitz_row<Real>({x + 2 * middle * g.column_capacity, g.column_capacity, k + 2 * middle * g.column_points, 1,
                          g.column_points, 0, first},
                         0, g.image.columns, g.period);
}

// ---- columns in tiles, the middle axis strictly Toeplitz ----------------------------------------------------------

// The group of a filter, [middle_points][taps of columns] -> one group of its spectrum.
template <typename Real>
void tile_spectrum(Geometry<Real> const& g, Vector<Real> const* group, Vector<Real>* k, Vector<Real>* work) {
  using V = Vector<Real>;
  Index const period = g.period, columns = g.filter.columns;
  V const within = broadcast(g.scale), between = broadcast(g.scale / Real(g.tile.length));
  auto const at = [&](Index row, Index column, int part) __attribute__((always_inline)) {
    return column < columns ? group[2 * (row * g.column_capacity + column) + part] : V{};
  };
  V* const tiles = k + 2 * g.middle_points * period;
  for (Index row = 1; row < g.middle_points; ++row) {
    for (Index d = 0; d < period; ++d)
      for (int part = 0; part < 2; ++part) k[2 * (row * period + d) + part] = at(row, d, part) * within;
    for (Index tile = 1; tile < g.tile_distances; ++tile) {
      for (Index e = 0; e < period; ++e)
        for (int part = 0; part < 2; ++part) {
          work[2 * e + part] = at(row, tile * period + e, part);
          work[2 * (period + e) + part] = e ? at(row, (tile - 1) * period + e, part) : V{};
        }
      fft::FALTUNG_SIMD::forward(g.tile, work, 1, g.tile.length);
      for (Index j = 0; j < g.tile.length; ++j)
        for (int part = 0; part < 2; ++part)
          tiles[2 * ((j * g.middle_points + row) * g.tile_distances + tile) + part] = work[2 * j + part] * between;
    }
  }
}

// The product of a group with a filter's spectrum, in place; `tiles` is the memory behind the group.
template <typename Real>
void tiles_product(Geometry<Real> const& g, Vector<Real> const* k, Vector<Real>* x, Vector<Real>* tiles,
                   Vector<Real>* work) {
  using V = Vector<Real>;
  Index const rows = g.image.middle, columns = g.image.columns, period = g.period, count = tiles_of_columns(g),
              pitch = tile_pitch(g);
  auto const tile_at = [&](Index j, Index row, Index tile) __attribute__((always_inline)) {
    return tiles + 2 * (j * pitch + row * count + tile);
  };
  for (Index row = 0; row + 1 < rows; ++row)
    for (Index tile = 0; tile + 1 < count; ++tile) {
      V const* const from = x + 2 * (row * g.column_capacity + tile * period);
      for (Index e = 0; e < 2 * period; ++e) work[e] = from[e];
      fft::FALTUNG_SIMD::forward(g.tile, work, 1, int(period));
      for (Index j = 0; j < g.tile.length; ++j) {
        V* const to = tile_at(j, row, tile);
        to[0] = work[2 * j];
        to[1] = work[2 * j + 1];
      }
    }
  V const* const between = k + 2 * g.middle_points * period;
  for (Index j = 0; j < g.tile.length; ++j)
    for (Index row = rows - 1; row > 0; --row)
      toeplitz_row<Real>({tile_at(j, 0, 0), count, between + 2 * j * g.middle_points * g.tile_distances,
                          g.middle_points, g.tile_distances, 1, 1},
                         row, count, count);
  for (Index row = rows - 1; row > 0; --row)
    toeplitz_row<Real>({x, g.column_capacity, k, g.middle_points, period, 1, 0}, row, columns, period);
  for (Index column = 0; column < 2 * columns; ++column) x[column] = V{};  // nothing comes before the first row
  for (Index row = 1; row < rows; ++row)
    for (Index tile = 1; tile < count; ++tile) {
      for (Index j = 0; j < g.tile.length; ++j) {
        V const* const from = tile_at(j, row, tile);
        work[2 * j] = from[0];
        work[2 * j + 1] = from[1];
      }
      fft::FALTUNG_SIMD::inverse(g.tile, work, 1, int(period));
      Index const rest = columns - tile * period, wanted = rest < period ? rest : period;
      V* const to = x + 2 * (row * g.column_capacity + tile * period);
      for (Index e = 0; e < 2 * wanted; ++e) to[e] += work[e];
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
