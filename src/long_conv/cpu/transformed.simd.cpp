// The arithmetic of cpu.transformed: see transformed_kernels.hpp for the shape of the computation.
#include "long_conv/cpu/transformed_groups.hpp"
#include "long_conv/cpu/transformed_kernels.hpp"
#include "long_conv/cpu/transformed_rows.hpp"
#include "long_conv/cpu/transformed_toeplitz.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {
namespace {

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
    if (g.column_kind == AxisKind::tiles) {
      tile_spectrum(g, in_group, k, registers_of(work));
      continue;
    }
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
    else if (g.column_kind == AxisKind::tiles)
      tiles_product(g, k, in_group, in_group + 2 * g.image.middle * g.column_capacity, registers_of(work));
    else
      toeplitz_product(g, k, in_group);
    group_inverse(g, g.image, in_group);
    store_group(g, g.image, in_group, number, registers_of(half));
  }
  real_inverse(g, g.image, registers_of(half), y, registers_of(work));
  if (taps) add_within_blocks(g, taps, x, y);
}

template <typename Real>
void backward(Geometry<Real> const& g, Real const* spectrum, Real const* dy, Real const* x, Real* dx, Real* gradient,
              Real* half, Real* group, Real* work) {
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
  if (spectrum) real_inverse(g, g.image, dy_half, dx, registers_of(work));
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

void round_spectrum(double const* from, std::int64_t groups, std::int64_t points, float* to) {
  constexpr int narrow = lanes<double>, wide = lanes<float>;
  using Half = VectorType<float, narrow>::type;
  for (Index group = 0; group < groups; ++group) {
    float* const target = to + group * narrow / wide * points * wide + group * narrow % wide;
    double const* const source = from + group * points * narrow;
    for (Index i = 0; i < points; ++i)
      store(target + i * wide, __builtin_convertvector(load(source + i * narrow), Half));
  }
}

void widen_spectrum(float const* from, std::int64_t groups, std::int64_t points, double* to) {
  constexpr int narrow = lanes<double>, wide = lanes<float>;
  using Half = VectorType<float, narrow>::type;
  for (Index group = 0; group < groups; ++group) {
    float const* const source = from + group * narrow / wide * points * wide + group * narrow % wide;
    double* const target = to + group * points * narrow;
    for (Index i = 0; i < points; ++i)
      store(target + i * narrow, __builtin_convertvector(load_as<Half>(source + i * wide), Vector<double>));
  }
}

template <typename Real>
constexpr auto rounding = sizeof(Real) == sizeof(float) ? round_spectrum : nullptr;
template <typename Real>
constexpr auto widening = sizeof(Real) == sizeof(float) ? widen_spectrum : nullptr;

template <typename Real>
constexpr TransformedKernels<Real> table = {lanes<Real>,    registers >= 32 ? 8 : 4, filter_spectrum<Real>,
                                            convolve<Real>, backward<Real>,          transpose_plane<Real>,
                                            rounding<Real>, widening<Real>,          filter_gradient<Real>};

}  // namespace

extern TransformedKernels<float> const transformed_float;
extern TransformedKernels<double> const transformed_double;
TransformedKernels<float> const transformed_float = table<float>;
TransformedKernels<double> const transformed_double = table<double>;

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
