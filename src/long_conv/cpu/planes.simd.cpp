// Loads and stores of blocks of planes (planes.hpp), a tile of at most lanes x lanes at a time. A tile is held `across`
// (one register per column, a lane per plane) or `along` (one register per plane, a lane per column): the side with
// unit stride decides.
#include "long_conv/cpu/planes.hpp"

#include "simd/vector.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {
namespace {

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

FALTUNG_INLINE bool joins(Index const* extents, Index const* strides, int outer) {
  return strides[outer] == extents[outer + 1] * strides[outer + 1];
}

// Makes the innermost axis long: outer axes that all sides walk in the same steps join it, an innermost axis of one
// point goes away (in interleaved scratch only: a separate plane keeps its unit pitch).
FALTUNG_INLINE void merge(Index* extents, Index* a, Index* b, Index* c, bool interleaved) {
  for (int step = 0; step < 2; ++step) {
    bool const single = extents[2] == 1 && interleaved;
    if (extents[1] != 1 && !single && !(joins(extents, a, 1) && joins(extents, b, 1) && joins(extents, c, 1))) return;
    if (single) a[2] = a[1], b[2] = b[1], c[2] = c[1];
    extents[2] *= extents[1];
    extents[1] = extents[0];
    extents[0] = 1;
    a[1] = a[0], b[1] = b[0], c[1] = c[0];
  }
}

FALTUNG_INLINE void copy3(Index* to, Index const* from) {
  for (int i = 0; i < 3; ++i) to[i] = from[i];
}

// Runs body(column, count) over the columns of a row; the last tile overlaps its neighbour where `may_overlap`, which
// writes the same values twice but keeps every tile full.
template <int Lanes, typename Body>
FALTUNG_INLINE void for_each_tile(Index columns, Body const& body) {
  Index column = 0;
  for (; column + Lanes <= columns; column += Lanes) body(column, Lanes);
  if (column == columns) return;
  if (columns > Lanes)
    body(columns - Lanes, Lanes);
  else
    body(column, int(columns - column));
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

template <typename Real, typename Storage>
void load_block(PlaneTensor const& from, Index const* extents_in, PlaneScratch<Real> const& to) {
  constexpr int n = lanes<Real>;
  Index extents[3], strides[3], pitches[3], same_pitches[3];
  copy3(extents, extents_in), copy3(strides, from.strides), copy3(pitches, to.pitches), copy3(same_pitches, to.pitches);
  bool const interleaved = to.plane_pitch == 1;
  merge(extents, strides, pitches, same_pitches, interleaved);
  Row<Real, Storage> row{nullptr, from.offsets, from.planes, strides[2], form_of<Real, Storage>(from, strides[2])};
  Way const way = way_of(row, interleaved);
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[1]; ++j) {
      row.data = static_cast<Storage*>(from.data) + i * strides[0] + j * strides[1];
      Real* const target = to.data + i * pitches[0] + j * pitches[1];
      if constexpr (converts<Real, Storage>) {
        if (way == Way::straight_along) {
          load_along(row, extents[2], target, to.plane_pitch);
          continue;
        }
        if (way == Way::straight_across) {
          for (Index t = 0; t < extents[2]; ++t)
            store(target + t * pitches[2], load_as_real<Real>(row.data + row.offsets[0] + t * row.stride));
          continue;
        }
      }
      for_each_tile<n>(
          extents[2], [&](Index column, int count) __attribute__((always_inline)) {
            if constexpr (converts<Real, Storage>)
              if (way == Way::squares && count == n)
                return load_square(row, column, target + column * pitches[2], pitches[2]);
            Tile<Real> tile;
            read(row, column, count, tile);
            change_form<Real>(tile, row.form, interleaved ? Form::across : Form::along);
            Real* const corner = target + column * pitches[2];
            if (interleaved) {
              for (int t = 0; t < count; ++t) store(corner + t * pitches[2], tile.at[t]);
            } else if (count == n) {
              for (int l = 0; l < from.planes; ++l) store(corner + l * to.plane_pitch, tile.at[l]);
            } else {
              for (int l = 0; l < from.planes; ++l) store_some<Real>(corner + l * to.plane_pitch, tile.at[l], count);
            }
          });
    }
}

template <typename Real, typename Storage>
void store_block(PlaneScratch<Real> const& from, Index const* extents_in, PlaneTensor const& to,
                 PlaneShortcut<Real> const& shortcut) {
  constexpr int n = lanes<Real>;
  Index extents[3], pitches[3], strides[3], x_strides[3];
  copy3(extents, extents_in), copy3(strides, to.strides), copy3(pitches, from.pitches);
  copy3(x_strides, shortcut.factors ? shortcut.x.strides : to.strides);
  bool const interleaved = from.plane_pitch == 1;
  merge(extents, pitches, strides, x_strides, interleaved);
  Form const scratch_form = interleaved ? Form::across : Form::along;
  Row<Real, Storage> row{nullptr, to.offsets, to.planes, strides[2], form_of<Real, Storage>(to, strides[2])};
  Row<Real, Storage> x_row{nullptr, nullptr, to.planes, x_strides[2], Form::scattered};
  if (shortcut.factors)
    x_row.offsets = shortcut.x.offsets, x_row.form = form_of<Real, Storage>(shortcut.x, x_strides[2]);
  Way way = way_of(row, interleaved);
  if (shortcut.factors && (way == Way::squares || way_of(x_row, interleaved) != way)) way = Way::tiles;
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[1]; ++j) {
      row.data = static_cast<Storage*>(to.data) + i * strides[0] + j * strides[1];
      if (shortcut.factors) x_row.data = static_cast<Storage*>(shortcut.x.data) + i * x_strides[0] + j * x_strides[1];
      Real const* const source = from.data + i * pitches[0] + j * pitches[1];
      if constexpr (converts<Real, Storage>) {
        if (way == Way::straight_along) {
          store_along(source, from.plane_pitch, extents[2], row, shortcut.factors, x_row);
          continue;
        }
        if (way == Way::straight_across) {
          for (Index t = 0; t < extents[2]; ++t) {
            Vector<Real> v = load(source + t * pitches[2]);
            if (shortcut.factors)
              v = fma(load(shortcut.factors), load_as_real<Real>(x_row.data + x_row.offsets[0] + t * x_row.stride), v);
            store_as_storage<Real>(row.data + row.offsets[0] + t * row.stride, v);
          }
          continue;
        }
      }
      for_each_tile<n>(
          extents[2], [&](Index column, int count) __attribute__((always_inline)) {
            if constexpr (converts<Real, Storage>)
              if (way == Way::squares && count == n)
                return store_square(source + column * pitches[2], pitches[2], row, column);
            Tile<Real> tile, x_tile;
            Real const* const corner = source + column * pitches[2];
            for (int t = 0; t < n; ++t) tile.at[t] = Vector<Real>{};
            if (interleaved) {
              for (int t = 0; t < count; ++t) tile.at[t] = load(corner + t * pitches[2]);
            } else {
              for (int l = 0; l < to.planes; ++l)
                tile.at[l] = count == n ? load(corner + l * from.plane_pitch)
                                        : load_some<Real>(corner + l * from.plane_pitch, count);
            }
            if (shortcut.factors) {
              read(x_row, column, count, x_tile);
              change_form<Real>(x_tile, x_row.form, scratch_form);
              if (interleaved) {
                Vector<Real> const factors = load(shortcut.factors);
                for (int t = 0; t < count; ++t) tile.at[t] = fma(factors, x_tile.at[t], tile.at[t]);
              } else {
                for (int l = 0; l < to.planes; ++l)
                  tile.at[l] = fma(broadcast<Real>(shortcut.factors[l]), x_tile.at[l], tile.at[l]);
              }
            }
            change_form<Real>(tile, scratch_form, row.form);
            write(row, column, count, tile);
          });
    }
}

template <typename Real>
void load_any(PlaneTensor const& from, Index const* extents, PlaneScratch<Real> const& to) {
  if (from.dtype == FALTUNG_F64) return load_block<Real, double>(from, extents, to);
  if (from.dtype == FALTUNG_F32) return load_block<Real, float>(from, extents, to);
  if (from.dtype == FALTUNG_F16) return load_block<Real, Float16>(from, extents, to);
  return load_block<Real, BFloat16>(from, extents, to);
}

template <typename Real>
void store_any(PlaneScratch<Real> const& from, Index const* extents, PlaneTensor const& to,
               PlaneShortcut<Real> const& shortcut) {
  if (to.dtype == FALTUNG_F64) return store_block<Real, double>(from, extents, to, shortcut);
  if (to.dtype == FALTUNG_F32) return store_block<Real, float>(from, extents, to, shortcut);
  if (to.dtype == FALTUNG_F16) return store_block<Real, Float16>(from, extents, to, shortcut);
  return store_block<Real, BFloat16>(from, extents, to, shortcut);
}

}  // namespace

extern PlaneFunctions const plane_functions;
PlaneFunctions const plane_functions = {lanes<float>,     lanes<double>,    load_any<float>,
                                        load_any<double>, store_any<float>, store_any<double>};

}  // namespace faltung::long_conv::cpu::FALTUNG_SIMD
