// Rows of a block of planes (planes.hpp) between a tensor and registers, a tile of at most lanes x lanes at a time. A
// tile is held `across` (one register per column, a lane per plane) or `along` (one register per plane, a lane per
// column): the side with unit stride decides. Included by planes.simd.cpp only.
#pragma once
#include "long_conv/cpu/planes.hpp"
#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {

using namespace faltung::simd::FALTUNG_SIMD;
using Index = std::int64_t;

enum class Form { across, along, scattered };

template <typename A, typename B>
inline constexpr bool same = false;
template <typename A>
inline constexpr bool same<A, A> = true;

// Pairs whose conversion is a vector instruction; the others (an fp64 filter of an fp32 input, ...) go element by
// element.
template <typename Real, typename Storage>
inline constexpr bool converts = same<Real, double> == same<Storage, double> ||
                                 (same<Real, double> && same<Storage, float>);

template <typename Real, typename Storage>
FALTUNG_INLINE Vector<Real> load_as_real(Storage const* from) {
  if constexpr (same<Real, double> && same<Storage, float>)
    return __builtin_convertvector(load_as<typename VectorType<float, lanes<double>>::type>(from), Vector<double>);
  else
    return load_converted(from);
}

template <typename Real, typename Storage>
FALTUNG_INLINE void store_as_storage(Storage* to, Vector<Real> v) {
  if constexpr (same<Real, double> && same<Storage, float>)
    store(to, __builtin_convertvector(v, typename VectorType<float, lanes<double>>::type));
  else
    store_converted(to, v);
}

// The first `count` elements; the other lanes are 0.
template <typename Real, typename Storage>
FALTUNG_INLINE Vector<Real> load_some(Storage const* from, int count) {
  alignas(vector_bytes) Storage values[lanes<Real>] = {};
#if defined(FALTUNG_SIMD_avx512)
  if constexpr (sizeof(Storage) == 8) return Vector<Real>(_mm512_maskz_loadu_pd(__mmask8((1u << count) - 1), from));
  if constexpr (sizeof(Storage) == 4 && sizeof(Real) == 4)
    return Vector<Real>(_mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), from));
  if constexpr (sizeof(Storage) == 2 && sizeof(Real) == 4) {
    store(values, _mm256_maskz_loadu_epi16(__mmask16((1u << count) - 1), from));
    return load_as_real<Real>(values);
  }
#endif
  for (int t = 0; t < count; ++t) values[t] = from[t];
  return load_as_real<Real>(values);
}

template <typename Real, typename Storage>
FALTUNG_INLINE void store_some(Storage* to, Vector<Real> v, int count) {
  alignas(vector_bytes) Storage values[lanes<Real>];
#if defined(FALTUNG_SIMD_avx512)
  if constexpr (sizeof(Storage) == 8) return _mm512_mask_storeu_pd(to, __mmask8((1u << count) - 1), __m512d(v));
  if constexpr (sizeof(Storage) == 4 && sizeof(Real) == 4)
    return _mm512_mask_storeu_ps(to, __mmask16((1u << count) - 1), __m512(v));
  if constexpr (sizeof(Storage) == 2 && sizeof(Real) == 4) {
    store_as_storage<Real>(values, v);
    return _mm256_mask_storeu_epi16(to, __mmask16((1u << count) - 1), load_as<__m256i>(values));
  }
#endif
  store_as_storage<Real>(values, v);
  for (int t = 0; t < count; ++t) to[t] = values[t];
}

template <typename Real, typename Storage>
struct Row {
  Storage* data;  // the first column of plane 0
  Index const* offsets;
  int planes;
  Index stride;
  Form form;
};

template <typename Real>
struct Tile {
  Vector<Real> at[lanes<Real>];
};

template <typename Real, typename Storage>
FALTUNG_INLINE Form form_of(PlaneTensor const& t, Index stride) {
  if constexpr (!converts<Real, Storage>) return Form::scattered;
  if (stride == 1 || stride == -1) return Form::along;
  bool adjacent = t.planes == lanes<Real>;
  for (int l = 1; l < t.planes; ++l) adjacent = adjacent && t.offsets[l] == t.offsets[0] + l;
  return adjacent ? Form::across : Form::scattered;
}

// Lane t is from[-t] for t < count, else 0.
template <typename Real, typename Storage, int... Lane>
FALTUNG_INLINE Vector<Real> load_backward(Storage const* from, int count, std::integer_sequence<int, Lane...>) {
  constexpr int n = lanes<Real>;
  if (count == n) {
    Vector<Real> const v = load_as_real<Real>(from - (n - 1));
    return __builtin_shufflevector(v, v, (n - 1 - Lane)...);
  }
  alignas(vector_bytes) Storage values[n] = {};
  for (int t = 0; t < count; ++t) values[t] = from[-t];
  return load_as_real<Real>(values);
}

// Columns [column, column + count) in the form of the row; scattered ones come across. Lanes without a plane are 0.
template <typename Real, typename Storage>
FALTUNG_INLINE void read(Row<Real, Storage> const& row, Index column, int count, Tile<Real>& tile) {
  constexpr int n = lanes<Real>;
  Storage const* const from = row.data + column * row.stride;
  if constexpr (converts<Real, Storage>) {
    if (row.form == Form::across) {
      for (int t = 0; t < count; ++t) tile.at[t] = load_as_real<Real>(from + row.offsets[0] + t * row.stride);
      return;
    }
    if (row.form == Form::along) {
      if (count == n && row.planes == n && row.stride == 1) {
#pragma GCC unroll 16
        for (int l = 0; l < n; ++l) tile.at[l] = load_as_real<Real>(from + row.offsets[l]);
        return;
      }
      for (int l = 0; l < n; ++l) {
        if (l >= row.planes)
          tile.at[l] = Vector<Real>{};
        else if (row.stride == 1)
          tile.at[l] =
              count == n ? load_as_real<Real>(from + row.offsets[l]) : load_some<Real>(from + row.offsets[l], count);
        else
          tile.at[l] = load_backward<Real>(from + row.offsets[l], count, std::make_integer_sequence<int, n>());
      }
      return;
    }
  }
  for (int t = 0; t < count; ++t) {
    alignas(vector_bytes) Real column_values[n] = {};
    for (int l = 0; l < row.planes; ++l) column_values[l] = Real(to_float(from[row.offsets[l] + t * row.stride]));
    tile.at[t] = load(column_values);
  }
}

template <typename Real, typename Storage>
FALTUNG_INLINE void write(Row<Real, Storage> const& row, Index column, int count, Tile<Real> const& tile) {
  constexpr int n = lanes<Real>;
  Storage* const to = row.data + column * row.stride;
  if constexpr (converts<Real, Storage>) {
    if (row.form == Form::across) {
      for (int t = 0; t < count; ++t) store_as_storage<Real>(to + row.offsets[0] + t * row.stride, tile.at[t]);
      return;
    }
    if (row.form == Form::along) {
      if (count == n && row.stride == 1) {
        for (int l = 0; l < row.planes; ++l) store_as_storage<Real>(to + row.offsets[l], tile.at[l]);
      } else if (row.stride == 1) {
        for (int l = 0; l < row.planes; ++l) store_some<Real>(to + row.offsets[l], tile.at[l], count);
      } else {
        alignas(vector_bytes) Storage values[n];
        for (int l = 0; l < row.planes; ++l) {
          store_as_storage<Real>(values, tile.at[l]);
          for (int t = 0; t < count; ++t) to[row.offsets[l] - t] = values[t];
        }
      }
      return;
    }
  }
  for (int t = 0; t < count; ++t) {
    alignas(vector_bytes) Real column_values[n];
    store(column_values, tile.at[t]);
    for (int l = 0; l < row.planes; ++l) to[row.offsets[l] + t * row.stride] = round_to<Storage>(column_values[l]);
  }
}

template <typename Real>
FALTUNG_INLINE Form form_in_tile(Form form) {
  return form == Form::along ? Form::along : Form::across;
}

template <typename Real>
FALTUNG_INLINE void change_form(Tile<Real>& tile, Form from, Form to) {
  if ((from == Form::along) != (to == Form::along)) transpose<Real>(tile.at);
}

// A full square between planes of unit stride and interleaved scratch, in registers all the way.
template <typename Real, typename Storage>
FALTUNG_INLINE void load_square(Row<Real, Storage> const& row, Index column, Real* to, Index pitch) {
  constexpr int n = lanes<Real>;
  Vector<Real> square[n];
#pragma GCC unroll 16
  for (int l = 0; l < n; ++l) square[l] = load_as_real<Real>(row.data + column + row.offsets[l]);
  transpose<Real>(square);
#pragma GCC unroll 16
  for (int t = 0; t < n; ++t) store(to + t * pitch, square[t]);
}

template <typename Real, typename Storage>
FALTUNG_INLINE void store_square(Real const* from, Index pitch, Row<Real, Storage> const& row, Index column) {
  constexpr int n = lanes<Real>;
  Vector<Real> square[n];
#pragma GCC unroll 16
  for (int t = 0; t < n; ++t) square[t] = load(from + t * pitch);
  transpose<Real>(square);
#pragma GCC unroll 16
  for (int l = 0; l < n; ++l) store_as_storage<Real>(row.data + column + row.offsets[l], square[l]);
}

// Ways through a row, fastest first.
enum class Way {
  straight_along,   // a register per piece of a plane, on both sides
  straight_across,  // a register per column, on both sides
  squares,          // full squares in registers, the rest by tiles
  tiles
};

template <typename Real, typename Storage>
FALTUNG_INLINE Way way_of(Row<Real, Storage> const& row, bool interleaved) {
  if (!converts<Real, Storage>) return Way::tiles;
  if (row.form == Form::across) return interleaved ? Way::straight_across : Way::tiles;
  if (row.form != Form::along || row.stride != 1) return Way::tiles;
  if (!interleaved) return Way::straight_along;
  return row.planes == lanes<Real> ? Way::squares : Way::tiles;
}

template <typename Real, typename Storage>
FALTUNG_INLINE void load_along(Row<Real, Storage> const& row, Index columns, Real* to, Index plane_pitch) {
  constexpr int n = lanes<Real>;
  for (int l = 0; l < row.planes; ++l, to += plane_pitch) {
    Storage const* const from = row.data + row.offsets[l];
    Index t = 0;
    for (; t + n <= columns; t += n) store(to + t, load_as_real<Real>(from + t));
    if (t < columns) store_some<Real>(to + t, load_some<Real>(from + t, int(columns - t)), int(columns - t));
  }
}

// With x, which goes the same way, where factors are there.
template <typename Real, typename Storage>
FALTUNG_INLINE void store_along(Real const* from, Index plane_pitch, Index columns, Row<Real, Storage> const& row,
                                Real const* factors, Row<Real, Storage> const& x) {
  constexpr int n = lanes<Real>;
  for (int l = 0; l < row.planes; ++l, from += plane_pitch) {
    Storage* const to = row.data + row.offsets[l];
    Vector<Real> const factor = broadcast<Real>(factors ? factors[l] : Real(0));
    for (Index t = 0; t < columns; t += n) {
      bool const whole = t + n <= columns;
      int const rest = int(columns - t);
      Vector<Real> v = whole ? load(from + t) : load_some<Real>(from + t, rest);
      if (factors) {
        Storage const* const at = x.data + x.offsets[l] + t;
        v = fma(factor, whole ? load_as_real<Real>(at) : load_some<Real>(at, rest), v);
      }
      if (whole)
        store_as_storage<Real>(to + t, v);
      else
        store_some<Real>(to + t, v, rest);
    }
  }
}

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
