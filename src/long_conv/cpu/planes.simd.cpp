// Loads and stores of blocks of planes (planes.hpp), row by row (planes_rows.hpp), each row the fastest way there is.
#include "long_conv/cpu/planes_rows.hpp"

namespace faltung::long_conv::cpu::FALTUNG_SIMD {
namespace {

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

// Runs body(column, count) over the columns of a row; the last tile overlaps its neighbour where there is one: the same
// values are written twice, but every tile is full.
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
