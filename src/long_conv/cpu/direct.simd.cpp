// The correlation of direct_kernels.hpp: a block of Rows x Columns outputs stays in registers while the taps that meet
// real input pass by; taps in groups, so that an input vector serves several of them. A chain of sums is short, then
// goes to `out`.
#include "long_conv/cpu/direct_kernels.hpp"
#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {
namespace {

using namespace faltung::simd::FALTUNG_SIMD;
using Index = std::int64_t;

// Half of what the spec allows: with 2048 taps a tile, 32 terms a chain and at most about 64 chains give the smallest
// error.
constexpr Index longest_chain = 32;

// Accumulators, weights of a group and the inputs they meet must fit the registers: 16 + 4 + 7 of 32, 8 + 2 + 5 of 16.
constexpr int most_rows = registers >= 32 ? 4 : 2;
constexpr int most_accumulators = registers >= 32 ? 16 : 8;
constexpr int tap_group = registers >= 32 ? 4 : 2;

constexpr int most_columns(int rows) { return rows == 1 ? most_accumulators : rows == 2 ? most_accumulators / 2 : 4; }

FALTUNG_INLINE Index smaller(Index a, Index b) { return a < b ? a : b; }
FALTUNG_INLINE Index larger(Index a, Index b) { return a > b ? a : b; }

// The taps of an axis that meet real input from one of the outputs [first, first + count).
struct Range {
  Index begin, end;
};

template <typename Real>
FALTUNG_INLINE Range taps_of(CorrelationTile<Real> const& t, int axis, Index first, Index count) {
  return {larger(t.taps_begin[axis], t.real_begin[axis] - (first + count - 1)),
          smaller(t.taps_end[axis], t.real_end[axis] - first)};
}

template <typename Real, int Rows, int Columns>
struct Accumulators {
  Vector<Real> at[Rows][Columns];
};

template <int Taps, typename Real, int Rows, int Columns>
FALTUNG_INLINE void multiply(Real const* x, Index pitch, Real const* w, Accumulators<Real, Rows, Columns>& sums) {
  constexpr int n = lanes<Real>;
  Vector<Real> taps[Taps];
#pragma GCC unroll 8
  for (int t = 0; t < Taps; ++t) taps[t] = load(w + t * n);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    Vector<Real> inputs[Columns + Taps - 1];
#pragma GCC unroll 32
    for (int j = 0; j < Columns + Taps - 1; ++j) inputs[j] = load(x + i * pitch + j * n);
#pragma GCC unroll 8
    for (int t = 0; t < Taps; ++t)
#pragma GCC unroll 16
      for (int j = 0; j < Columns; ++j) sums.at[i][j] = fma(inputs[j + t], taps[t], sums.at[i][j]);
  }
}

template <typename Real, int Rows, int Columns>
FALTUNG_INLINE void flush(Real* out, Index pitch, bool first, Accumulators<Real, Rows, Columns>& sums) {
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < Columns; ++j) {
      Real* const to = out + i * pitch + j * lanes<Real>;
      store(to, first ? sums.at[i][j] : load(to) + sums.at[i][j]);
      sums.at[i][j] = Vector<Real>{};
    }
}

// The compiler must not see that the next group of taps meets inputs of this one: it would keep them, for all rows, in
// registers that it does not have.
template <typename Real>
FALTUNG_INLINE Real const* unrelated(Real const* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// `count` taps from w on, in groups.
template <typename Real, int Rows, int Columns>
FALTUNG_INLINE void multiply_run(Real const* x, Index pitch, Real const* w, Index count,
                                 Accumulators<Real, Rows, Columns>& sums) {
  constexpr int step = tap_group * lanes<Real>;
  for (; count >= tap_group; count -= tap_group, x = unrelated(x + step), w += step)
    multiply<tap_group>(x, pitch, w, sums);
  if constexpr (tap_group == 4) {
    if (count == 3) return multiply<3>(x, pitch, w, sums);
    if (count == 2) return multiply<2>(x, pitch, w, sums);
  }
  if (count == 1) multiply<1>(x, pitch, w, sums);
}

// Outputs [i0][i1 .. i1 + Rows)[i2 .. i2 + Columns).
template <typename Real, int Rows, int Columns>
void block(CorrelationTile<Real> const& t, Index i0, Index i1, Index i2) {
  constexpr int n = lanes<Real>;
  Range const r0 = taps_of(t, 0, i0, 1), r1 = taps_of(t, 1, i1, Rows), r2 = taps_of(t, 2, i2, Columns);
  Index const pitch = t.box_extents[2] * n, out_pitch = t.outputs[2] * n, w_pitch = t.taps[2] * n;
  Index const plane = t.box_extents[1] * pitch, w_plane = t.taps[1] * w_pitch;
  Real* const out = t.out + (i0 * t.outputs[1] + i1) * out_pitch + i2 * n;
  Real const* const x = t.x + (i0 - t.box_begin[0]) * plane + (i1 - t.box_begin[1]) * pitch + (i2 - t.box_begin[2]) * n;
  Real const* const w = t.w;
  // A row of taps is one chain or several of even length, whole groups of taps each but the last.
  Index const row = larger(r2.end - r2.begin, 0), links = (row + longest_chain - 1) / longest_chain;
  Index const link = links ? ((row + links - 1) / links + tap_group - 1) / tap_group * tap_group : 0;
  Accumulators<Real, Rows, Columns> sums = {};
  Index chain = 0;
  bool first = true;
  for (Index m0 = r0.begin; m0 < r0.end; ++m0)
    for (Index m1 = r1.begin; m1 < r1.end; ++m1)
      for (Index m2 = r2.begin; m2 < r2.end; m2 += link) {
        Index const count = smaller(r2.end - m2, link);
        if (chain + count > longest_chain) {
          flush(out, out_pitch, first, sums);
          first = false;
          chain = 0;
        }
        chain += count;
        multiply_run(unrelated(x + m0 * plane + m1 * pitch + m2 * n), pitch, w + m0 * w_plane + m1 * w_pitch + m2 * n,
                     count, sums);
      }
  if (chain || first) flush(out, out_pitch, first, sums);
}

template <typename Real, int Rows, int Columns>
FALTUNG_INLINE void choose_columns(CorrelationTile<Real> const& t, Index i0, Index i1, Index i2, Index columns) {
  if constexpr (Columns > 1)
    if (columns != Columns) return choose_columns<Real, Rows, Columns - 1>(t, i0, i1, i2, columns);
  block<Real, Rows, Columns>(t, i0, i1, i2);
}

// Size of the block that starts at `first`: as many blocks as needed, of sizes as even as can be.
FALTUNG_INLINE Index block_size(Index extent, Index first, Index most) {
  Index const rest = extent - first, blocks = (rest + most - 1) / most;
  return (rest + blocks - 1) / blocks;
}

template <typename Real, int Rows>
void block_row(CorrelationTile<Real> const& t, Index i0, Index i1) {
  for (Index i2 = 0; i2 < t.outputs[2];) {
    Index const columns = block_size(t.outputs[2], i2, most_columns(Rows));
    choose_columns<Real, Rows, most_columns(Rows)>(t, i0, i1, i2, columns);
    i2 += columns;
  }
}

template <typename Real>
void correlate(CorrelationTile<Real> const& t) {
  for (Index i0 = 0; i0 < t.outputs[0]; ++i0)
    for (Index i1 = 0; i1 < t.outputs[1];) {
      Index const rows = block_size(t.outputs[1], i1, most_rows);
      if (rows == 1) block_row<Real, 1>(t, i0, i1);
      if (rows == 2) block_row<Real, 2>(t, i0, i1);
      if constexpr (most_rows >= 4) {
        if (rows == 3) block_row<Real, 3>(t, i0, i1);
        if (rows == 4) block_row<Real, 4>(t, i0, i1);
      }
      i1 += rows;
    }
}

Index halo(Index const* outputs, int axis) {
  if (axis == 0) return 0;
  Index rows = 1, widest = 1;
  for (Index i = 0; i < outputs[1]; i += rows) {
    rows = block_size(outputs[1], i, most_rows);
    widest = larger(widest, axis == 1 ? rows : most_columns(int(rows)));
  }
  return widest - 1;
}

void add_float(double* total, float const* part, Index count) {
  for (Index i = 0; i < count; ++i) total[i] += double(part[i]);
}

void add_double(double* total, double const* part, Index count) {
  for (Index i = 0; i < count; ++i) total[i] += part[i];
}

// In double: one number comes of many points, and may be small beside them.
template <typename Real>
void dot(double* total, Real const* a, Real const* b, Index points) {
  constexpr int n = lanes<Real>;
  double sums[n] = {};
  for (Index i = 0; i < points; ++i)
    for (int l = 0; l < n; ++l) sums[l] += double(a[i * n + l]) * double(b[i * n + l]);
  for (int l = 0; l < n; ++l) total[l] += sums[l];
}

}  // namespace

extern DirectFunctions const direct_functions;
DirectFunctions const direct_functions = {
    .halo = halo,
    .correlate_float = correlate<float>,
    .correlate_double = correlate<double>,
    .add_float = add_float,
    .add_double = add_double,
    .dot_float = dot<float>,
    .dot_double = dot<double>,
};

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
