// The arithmetic of cpu.transformed: see transformed_kernels.hpp for the shape of the computation.
#include <cstddef>

#include "fft/lanes.hpp"
#include "long_conv/cpu/transformed_kernels.hpp"
#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {
namespace {

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

// Terms of a chain of sums in fp32; longer sums are made of such chains.
constexpr Index chain = 64;

// x[row][t + i] = sum over distances of x[row - d0][t + i - d1] k[d0][d1], first <= d1 < pitch of k, d0 < rows of k,
// for `outputs` neighbours i.
template <int outputs, typename Real>
FALTUNG_INLINE void toeplitz_block(Vector<Real>* x, Index x_pitch, Vector<Real> const* k, Index rows, Index k_pitch,
                                   Index row, Index t, Index first) {
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
    Index const last = t + 1 < k_pitch ? t + 1 : k_pitch;
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
      if (t + more >= first && t + more < k_pitch) add(t + more, more, re, im);
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
    Index t = g.image.columns;
    for (; t % 4 != 0; --t)
      toeplitz_block<1, Real>(data, g.column_capacity, filter, rows ? g.middle_points : 1, g.column_points, row, t - 1,
                              first);
    for (; t > 0; t -= 4)
      toeplitz_block<4, Real>(data, g.column_capacity, filter, rows ? g.middle_points : 1, g.column_points, row, t - 4,
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

template <typename Real>
Vector<Real>* registers_of(Real* memory) {
  return reinterpret_cast<Vector<Real>*>(memory);
}
template <typename Real>
Vector<Real> const* registers_of(Real const* memory) {
  return reinterpret_cast<Vector<Real> const*>(memory);
}

template <typename Real>
void filter_spectrum(Geometry<Real> const& g, Real const* plane, Real* spectrum, Real* half, Real* group, Real* work) {
  using V = Vector<Real>;
  V* const in_group = registers_of(group);
  real_forward(g, g.filter, plane, registers_of(half), registers_of(work));
  V const scale = broadcast(g.scale);
  for (Index number = 0; number < g.groups; ++number) {
    V* const k = registers_of(spectrum) + number * group_spectrum(g);
    load_group(g, g.filter, registers_of(half), number, in_group);
    group_forward(g, g.filter, in_group);
    for_each_frequency(g, [&](Index i, Index f) {
      k[f] = in_group[i] * scale;
      k[f + 1] = in_group[i + 1] * scale;
    });
  }
}

template <typename Real>
void convolve(Geometry<Real> const& g, Real const* spectrum, Real const* taps, Real const* x, Real* y, Real* half,
              Real* group, Real* work) {
  using V = Vector<Real>;
  V* const in_group = registers_of(group);
  real_forward(g, g.image, x, registers_of(half), registers_of(work));
  for (Index number = 0; number < g.groups; ++number) {
    V const* const k = registers_of(spectrum) + number * group_spectrum(g);
    load_group(g, g.image, registers_of(half), number, in_group);
    group_forward(g, g.image, in_group);
    if (g.column_kind == AxisKind::transform)
      for_each_frequency(g, [&](Index i, Index f) {
        V const re = in_group[i], im = in_group[i + 1];
        in_group[i] = negated_fma(im, k[f + 1], re * k[f]);
        in_group[i + 1] = fma(re, k[f + 1], im * k[f]);
      });
    else
      toeplitz_product(g, k, in_group);
    group_inverse(g, g.image, in_group);
    store_group(g, g.image, in_group, number, registers_of(half));
  }
  real_inverse(g, g.image, registers_of(half), y, registers_of(work));
  if (taps) add_within_blocks(g, taps, x, y);
}

template <typename Real>
void backward(Geometry<Real> const& g, Real const* spectrum, Real* dy, Real const* x, Real* gradient, Real* half,
              Real* group, Real* work) {
  using V = Vector<Real>;
  V* const dy_half = registers_of(half);
  V* const x_half = dy_half + 2 * Index(g.groups) * lanes<Real> * half_pitch(g.image, lanes<Real>);
  V* const d = registers_of(group);
  V* const e = d + 2 * Index(g.middle_points) * g.column_capacity;
  real_forward(g, g.image, dy, dy_half, registers_of(work));
  if (x) real_forward(g, g.image, x, x_half, registers_of(work));
  for (Index number = 0; number < g.groups; ++number) {
    load_group(g, g.image, dy_half, number, d);
    group_forward(g, g.image, d);
    if (x) {
      V* const sum = registers_of(gradient) + number * group_spectrum(g);
      load_group(g, g.image, x_half, number, e);
      group_forward(g, g.image, e);
      for_each_frequency(g, [&](Index i, Index f) {
        sum[f] += fma(d[i + 1], e[i + 1], d[i] * e[i]);
        sum[f + 1] += negated_fma(d[i], e[i + 1], d[i + 1] * e[i]);
      });
    }
    if (!spectrum) continue;
    V const* const k = registers_of(spectrum) + number * group_spectrum(g);
    for_each_frequency(g, [&](Index i, Index f) {
      V const re = d[i], im = d[i + 1];
      d[i] = fma(im, k[f + 1], re * k[f]);
      d[i + 1] = negated_fma(re, k[f + 1], im * k[f]);
    });
    group_inverse(g, g.image, d);
    store_group(g, g.image, d, number, dy_half);
  }
  if (spectrum) real_inverse(g, g.image, dy_half, dy, registers_of(work));
}

template <typename Real>
void filter_gradient(Geometry<Real> const& g, Real const* gradient, Real* plane, Real* half, Real* group, Real* work) {
  using V = Vector<Real>;
  V* const in_group = registers_of(group);
  V const scale = broadcast(g.scale);
  for (Index number = 0; number < g.groups; ++number) {
    V const* const sum = registers_of(gradient) + number * group_spectrum(g);
    for_each_frequency(g, [&](Index i, Index f) {
      in_group[i] = sum[f] * scale;
      in_group[i + 1] = sum[f + 1] * scale;
    });
    group_inverse(g, g.filter, in_group);
    store_group(g, g.filter, in_group, number, registers_of(half));
  }
  real_inverse(g, g.filter, registers_of(half), plane, registers_of(work));
}

template <typename Real>
void transpose_plane(Real const* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, Real* to,
                     std::int64_t to_pitch) {
  constexpr int n = lanes<Real>;
  for (Index row = 0; row < rows; row += n)
    for (Index column = 0; column < columns; column += n) {
      if (row + n > rows || column + n > columns) {
        for (Index i = row; i < rows && i < row + n; ++i)
          for (Index j = column; j < columns && j < column + n; ++j) to[j * to_pitch + i] = from[i * from_pitch + j];
        continue;
      }
      Vector<Real> square[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) square[i] = load(from + (row + i) * from_pitch + column);
      transpose<Real>(square);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) store(to + (column + i) * to_pitch + row, square[i]);
    }
}

template <typename Real>
constexpr TransformedKernels<Real> table = {lanes<Real>,          registers >= 32 ? 8 : 4, filter_spectrum<Real>,
                                            convolve<Real>,       backward<Real>,          transpose_plane<Real>,
                                            filter_gradient<Real>};

}  // namespace

extern TransformedKernels<float> const transformed_float;
extern TransformedKernels<double> const transformed_double;
TransformedKernels<float> const transformed_float = table<float>;
TransformedKernels<double> const transformed_double = table<double>;

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
