// What the SIMD side of cpu.transformed offers, one table per instruction set, and the plain data that it works on.
//
// A plane (one sample, one channel) is staged as [rows][middle][pitch] reals. The row axis goes from real to complex
// first, with lanes over columns; then groups of `lanes` frequencies of that axis are transposed into lanes, and the
// middle and column axes are transformed, multiplied and transformed back inside the cache, group by group.
#pragma once
#include <cstdint>

#include "core/dtype.hpp"
#include "fft/passes.hpp"
#include "simd/target.hpp"

namespace faltung::long_conv::cpu {

// How a real axis of rows becomes `frequencies` complex rows.
enum class RealAxis {
  // Odd frequencies, X[2g] = sum over n < M of (x[n] - i x[n + M]) exp(-i pi n / 2M) exp(-2 pi i n g / M): a
  // convolution that wraps after
  // 2M points with its sign changed. Its M = P / 2 complex numbers have no real special cases; the wrapped part is
  // cropped.
  right_angle,
  // All frequencies 0 .. N / 2 of a cyclic axis of exactly N points.
  hermitian
};

// What happens along the middle and the column axis between the two transforms of the rows.
enum class AxisKind {
  transform,        // cyclic, multiplied with the filter's spectrum
  toeplitz,         // direct sum over this and earlier points: exact causality
  strict_toeplitz,  // over earlier points alone: they are blocks of a causal axis, whose own part is added by itself
  tiles             // over this and earlier points: directly within a tile of `period`, by transforms between tiles
};

// A staged plane: an image, or a filter by its positions.
struct Grid {
  std::int64_t rows, middle, columns, pitch;  // pitch: columns rounded up to lanes
  std::int64_t negated_from;  // right_angle: rows from here on wrapped, and count with their sign changed
};

template <typename Real>
struct Geometry {
  RealAxis real_axis;
  int frequencies;         // rows of a half-transformed plane in use
  int groups;              // of `lanes` frequencies
  fft::Passes<Real> rows;  // length M (right_angle) or N (hermitian)
  AxisKind middle_kind, column_kind;
  std::int64_t period;  // Toeplitz columns: direct sums stay within runs of so many columns
  std::int64_t middle_points,
      column_points;  // of a spectrum: lengths of the transforms, or distances of a Toeplitz product, or what tiles
                      // take
  fft::Passes<Real> middle, columns;  // of length 1 where there is nothing to transform
  fft::Passes<Real> tile;             // AxisKind::tiles: of 2 period points
  std::int64_t tile_distances;        // AxisKind::tiles: between tiles of columns, this one (0) included
  Real const* turn;                   // right_angle: [M][cos, sin] of -pi n / 2M
  Real const* twiddle;                // of a long axis in four steps: [groups][columns][re, im][lanes]; else null
  int const* slot;                    // hermitian: [frequencies] slots of f, then [frequencies] slots of N - f
  Grid image, filter;
  std::int64_t column_capacity;  // elements between two middle indices of a group: columns of image or filter,
                                 // whichever are more
  Real scale;  // 1 / (product of the lengths), applied to a filter's spectrum and to a filter's gradient
};

// Elements of the buffers, in units of Real.
//   half:     a half-transformed plane, [groups * lanes][half_pitch][re, im][lanes]
//   group:    one group in work, [middle_points][column_capacity][re, im][lanes]; behind it, where columns are in
//   tiles,
//             the transforms of the tiles, [2 period][tile_pitch][re, im][lanes], a tile being [middle][tile of
//             columns]
//   spectrum: [groups][middle_points][column_points][re, im][lanes]; with tiles a group of it is
//   [middle_points][period],
//             taps within a tile, then [2 period][middle_points][tile_distances]
//   work:     [rows.length or 2 period][re, im][lanes]
// Strips of `lanes` columns between two rows of `half`: odd, so that the rows of a column do not all fall on one set of
// the cache.
FALTUNG_INLINE std::int64_t half_pitch(Grid const& grid, int lanes) { return (grid.middle * grid.pitch / lanes) | 1; }

// Tiles of an image in `group`: odd, for the same reason.
template <typename Real>
FALTUNG_INLINE std::int64_t tiles_of_columns(Geometry<Real> const& g) {
  return (g.image.columns + g.period - 1) / g.period;
}
template <typename Real>
FALTUNG_INLINE std::int64_t tile_pitch(Geometry<Real> const& g) {
  return (g.image.middle * tiles_of_columns(g)) | 1;
}

template <typename Real>
struct TransformedKernels {
  int lanes, max_radix;

  // spectrum = scale * transform of the filter's plane.
  void (*filter_spectrum)(Geometry<Real> const&, Real const* plane, Real* spectrum, Real* half, Real* group,
                          Real* work);

  // y = x convolved with the filter; y may be x, unless columns are a strict Toeplitz product. taps: then the filter's
  // taps that stay within a block, [distances of middle][rows]; else null.
  void (*convolve)(Geometry<Real> const&, Real const* spectrum, Real const* taps, Real const* x, Real* y, Real* half,
                   Real* group, Real* work);

  // dx = dy correlated with the filter (where spectrum is not null), dx may be dy; gradient += the spectrum of dy
  // correlated with x (where x is not null). half and group have room for two.
  void (*backward)(Geometry<Real> const&, Real const* spectrum, Real const* dy, Real const* x, Real* dx, Real* gradient,
                   Real* half, Real* group, Real* work);

  // to[column * to_pitch + row] = from[row * from_pitch + column]
  void (*transpose)(Real const* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, Real* to,
                    std::int64_t to_pitch);

  // to = a spectrum of fp64 in the layout of fp32, whose registers have twice the lanes. points: of a group, times 2.
  // Null in the table
  // of fp64.
  void (*round_spectrum)(double const* from, std::int64_t groups, std::int64_t points, float* to);
  void (*widen_spectrum)(float const* from, std::int64_t groups, std::int64_t points, double* to);  // the way back

  // plane of the filter = scale * inverse transform of the gradient's spectrum.
  void (*filter_gradient)(Geometry<Real> const&, Real const* gradient, Real* plane, Real* half, Real* group,
                          Real* work);
};

template <typename Real>
TransformedKernels<Real> const& transformed_kernels();

}  // namespace faltung::long_conv::cpu
