#include "long_conv/cpu/transformed_plan.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>
#include <optional>

#include "core/error.hpp"

namespace faltung::long_conv::cpu {
namespace {

// Consecutive taps at consecutive positions of one axis of the plane.
struct Run {
  std::int64_t tap, position, length;
};

// Where the taps of an axis with `positions` points go; the offsets below 0 sit at its end.
std::vector<Run> runs_of(AxisNeeds const& needs, std::int64_t centre, std::int64_t positions) {
  std::vector<Run> runs;
  auto const add = [&](std::int64_t low, std::int64_t high, std::int64_t tap_of_zero) {
    if (low <= high) runs.push_back({low + tap_of_zero, low < 0 ? positions + low : low, high - low + 1});
  };
  auto const [low, high] = needs.offsets;
  add(std::max<std::int64_t>(low, 0), high, centre);
  add(low, std::min<std::int64_t>(high, -1), needs.periodic ? high + 1 : centre);
  return runs;
}

// On axes of one point: the one tap that meets it; nothing where there is none. Axes of `skip` stay 0.
template <typename Skip>
std::optional<Extents> single_taps(std::array<AxisNeeds, 3> const& needs, Extents const& centres, Skip&& skip) {
  Extents source{};
  for (int i = 0; i < 3; ++i) {
    if (skip(i)) continue;
    auto const runs = runs_of(needs[i], centres[i], 1);
    if (runs.empty()) return std::nullopt;
    source[i] = runs[0].tap;
  }
  return source;
}

// Each axis of the plane is an axis of the problem: the runs of three axes, multiplied out.
std::vector<Piece> grid_pieces(Layout const& l, std::array<AxisNeeds, 3> const& needs, Extents const& centres,
                               std::int64_t pitch) {
  std::vector<Piece> pieces;
  std::array<std::vector<Run>, 3> runs;
  for (int a = 0; a < 3; ++a) runs[a] = runs_of(needs[l.walk.axis[a]], centres[l.walk.axis[a]], l.positions[a]);
  for (auto const& row : runs[0])
    for (auto const& middle : runs[1])
      for (auto const& column : runs[2]) {
        Piece piece{.extents = {row.length, middle.length, column.length},
                    .source = {},
                    .plane = (row.position * l.positions[1] + middle.position) * pitch + column.position};
        piece.source[l.walk.axis[0]] = row.tap;
        piece.source[l.walk.axis[1]] = middle.tap;
        piece.source[l.walk.axis[2]] = column.tap;
        pieces.push_back(piece);
      }
  return pieces;
}

std::vector<Piece> four_step_pieces(Layout const& l, std::array<AxisNeeds, 3> const& needs, Extents const& centres) {
  int const axis = l.walk.axis[0];
  auto const source = single_taps(needs, centres, [&](int i) { return i == axis; });
  if (!source) return {};
  // A cyclic axis of exactly its extent: as the image.
  if (l.real_axis == RealAxis::hermitian) return {{.extents = l.image, .source = *source, .plane = 0}};
  std::vector<Piece> pieces;
  for (auto const& run : runs_of(needs[axis], centres[axis], l.positions[0] * l.image[2])) {
    Piece piece{.extents = {1, 1, run.length}, .source = *source, .plane = run.position};
    piece.source[axis] = run.tap;
    pieces.push_back(piece);
  }
  return pieces;
}

// An axis in blocks: the whole ones as one piece, what is left as another. body(first block, blocks, points of each).
template <typename Body>
void for_each_blocks(std::int64_t extent, std::int64_t block, Body&& body) {
  auto const full = extent / block, rest = extent % block;
  if (full) body(std::int64_t(0), full, block);
  if (rest) body(full, std::int64_t(1), rest);
}

std::vector<Piece> causal_block_image(Layout const& l, std::array<Axis, 3> const& axes) {
  int const axis = l.walk.axis[0];
  auto const block = l.walk.step[2];
  std::vector<Piece> pieces;
  for_each_blocks(axes[axis].extent, block, [&](std::int64_t first, std::int64_t blocks, std::int64_t length) {
    pieces.push_back({.extents = {length, l.image[1], blocks}, .source = {}, .plane = first});
    pieces.back().source[axis] = first * block;
  });
  return pieces;
}

// Tap o = d block + e of an axis in blocks serves block distances d (e >= 0) and d + 1 (e < 0), rows of the plane being
// places: body(first distance, distances, first tap, first row, rows) of taps that step by a block with the distance.
template <typename Body>
void for_each_block_run(Layout const& l, Axis const& axis, std::int64_t block, std::int64_t distances, Body&& body) {
  auto const last = std::min(axis.filter, axis.extent) - 1;  // tap
  for (bool const below : {false, true}) {
    auto const first_row = below ? l.positions[0] - (block - 1) : 0, length = below ? block - 1 : block;
    auto const tap_of = [&](std::int64_t d) { return d * block - (below ? block - 1 : 0); };
    auto const add = [&](std::int64_t d, std::int64_t count, std::int64_t rows) {
      if (count > 0 && rows > 0) body(d, count, tap_of(d), first_row, rows);
    };
    // Distances 1 .. full - 1 have all their taps, `full` may have some.
    std::int64_t full = 1;
    while (full < distances && tap_of(full) + length - 1 <= last) ++full;
    add(1, full - 1, length);
    if (full < distances) add(full, 1, last - tap_of(full) + 1);
  }
}

// Columns are distances, rows places.
std::vector<Piece> causal_block_pieces(Layout const& l, std::array<Axis, 3> const& axes, Extents const& source,
                                       std::int64_t pitch) {
  int const axis = l.walk.axis[0];
  std::vector<Piece> pieces;
  for_each_block_run(l, axes[axis], l.walk.step[2], l.lengths[2],
                     [&](std::int64_t d, std::int64_t columns, std::int64_t tap, std::int64_t row, std::int64_t rows) {
                       Piece piece{.extents = {rows, l.lengths[1], columns},
                                   .source = source,
                                   .plane = row * l.positions[1] * pitch + d};
                       piece.source[axis] = tap;
                       pieces.push_back(piece);
                     });
  return pieces;
}

// Rows of tiles: the same along the first axis of the plane, whose distances are the middle axis; columns are the taps
// of the second causal axis.
std::vector<Piece> causal_tile_image(Layout const& l, std::array<Axis, 3> const& axes, std::int64_t pitch) {
  int const axis = l.walk.axis[0];
  auto const rows = l.walk.step[1];
  std::vector<Piece> pieces;
  for_each_blocks(axes[axis].extent, rows, [&](std::int64_t first, std::int64_t count, std::int64_t length) {
    pieces.push_back({.extents = {length, count, l.image[2]}, .source = {}, .plane = first * pitch});
    pieces.back().source[axis] = first * rows;
  });
  return pieces;
}

std::vector<Piece> causal_tile_pieces(Layout const& l, std::array<Axis, 3> const& axes, Extents const& source,
                                      std::int64_t pitch) {
  int const axis = l.walk.axis[0];
  std::vector<Piece> pieces;
  for_each_block_run(
      l, axes[axis], l.walk.step[1], l.lengths[1],
      [&](std::int64_t d, std::int64_t distances, std::int64_t tap, std::int64_t row, std::int64_t rows) {
        Piece piece{.extents = {rows, distances, l.positions[2]},
                    .source = source,
                    .plane = (row * l.positions[1] + d) * pitch};
        piece.source[axis] = tap;
        pieces.push_back(piece);
      });
  return pieces;
}

// [groups][columns][re, im][lanes]: what stands between the transforms of rows and columns.
template <typename Real>
std::vector<Real> make_twiddle(TransformedPlan<Real> const& plan, Layout const& l, int lanes) {
  auto const& g = plan.geometry;
  std::int64_t const rows = l.lengths[0], columns = l.lengths[2];
  std::vector<Real> result(std::size_t(g.groups) * columns * 2 * lanes);
  bool const right_angle = l.real_axis == RealAxis::right_angle;
  for (int f = 0; f < g.frequencies; ++f) {
    int const row = right_angle ? plan.rows->slot(f) : f;
    Real* const to = result.data() + std::size_t(row / lanes) * columns * 2 * lanes + row % lanes;
    for (std::int64_t c = 0; c < columns; ++c) {
      double const turns = (double(c) * f + (right_angle ? 0.25 * c : 0.0)) / (double(rows) * columns);
      to[c * 2 * lanes] = Real(std::cos(2 * std::numbers::pi * turns));
      to[c * 2 * lanes + lanes] = Real(-std::sin(2 * std::numbers::pi * turns));
    }
  }
  return result;
}

template <typename Real>
std::shared_ptr<TransformedPlan<Real>> make_plan(std::array<Axis, 3> const& axes, Layout const& l) {
  auto const& kernels = transformed_kernels<Real>();
  int const lanes = kernels.lanes;
  std::array<AxisNeeds, 3> needs;
  for (int i = 0; i < 3; ++i) needs[i] = needs_of(axes[i]);
  auto result = std::make_shared<TransformedPlan<Real>>();
  auto& plan = *result;
  plan.arrangement = l.arrangement;
  plan.walk = l.walk;
  plan.rows = std::make_unique<fft::Plan<Real>>(int(l.lengths[0]), kernels.max_radix);
  auto const length_of = [&](int axis) { return l.kinds[axis] == AxisKind::transform ? int(l.lengths[axis]) : 1; };
  plan.middle = std::make_unique<fft::Plan<Real>>(length_of(1), kernels.max_radix);
  plan.columns = std::make_unique<fft::Plan<Real>>(length_of(2), kernels.max_radix);
  plan.tile = std::make_unique<fft::Plan<Real>>(l.tile_distances ? int(2 * l.period) : 1, kernels.max_radix);
  plan.tile_rows = l.tile_rows;

  auto& g = plan.geometry;
  g.real_axis = l.real_axis;
  int const length = int(l.lengths[0]);
  g.frequencies = l.real_axis == RealAxis::hermitian ? length / 2 + 1 : length;
  g.groups = int(round_up(g.frequencies, lanes) / lanes);
  g.rows = plan.rows->passes();
  g.middle = plan.middle->passes();
  g.columns = plan.columns->passes();
  g.tile = plan.tile->passes();
  g.tile_distances = l.tile_distances;
  g.middle_kind = l.kinds[1];
  g.column_kind = l.kinds[2];
  g.period = l.period ? l.period : l.image[2];
  g.middle_points = l.lengths[1];
  g.column_points = l.lengths[2];
  g.scale = Real(1.0 / (double(length) * length_of(1) * length_of(2)));
  std::int64_t const image_pitch = round_up(l.image[2], lanes), filter_pitch = round_up(l.positions[2], lanes);
  g.image = {l.image[0], l.image[1], l.image[2], image_pitch, l.image[0]};
  g.filter = {l.positions[0], l.positions[1], l.positions[2], filter_pitch, l.positions[0]};
  if (l.real_axis == RealAxis::right_angle) {
    g.filter.negated_from = l.positions[0] - l.wrapped;
    plan.turn.resize(2 * length);
    for (int n = 0; n < length; ++n) {
      double const angle = -std::numbers::pi * n / (2.0 * length);
      plan.turn[2 * n] = Real(std::cos(angle));
      plan.turn[2 * n + 1] = Real(std::sin(angle));
    }
  } else {
    plan.slot.resize(2 * g.frequencies);
    for (int f = 0; f < g.frequencies; ++f) {
      plan.slot[f] = plan.rows->slot(f);
      plan.slot[g.frequencies + f] = plan.rows->slot((length - f) % length);
    }
  }
  g.turn = plan.turn.data();
  g.slot = plan.slot.data();
  if (l.arrangement == Arrangement::four_step) plan.twiddle = make_twiddle(plan, l, lanes);
  g.twiddle = plan.twiddle.empty() ? nullptr : plan.twiddle.data();
  bool const tiles = l.arrangement == Arrangement::causal_tiles;
  g.column_capacity = std::max<std::int64_t>({image_pitch, tiles ? 0 : l.lengths[2], filter_pitch});

  Extents centres;
  plan.folds = false;
  for (int i = 0; i < 3; ++i) {
    bool const circular = axes[i].boundary == Boundary::circular;
    plan.folded[i] = circular ? axes[i].extent : axes[i].filter;
    centres[i] = circular ? 0 : axes[i].centre;
    plan.folds |= circular && !(axes[i].filter == axes[i].extent && axes[i].centre == 0);
  }
  plan.within_block = {};
  std::int64_t const axis = l.walk.axis[0], block = l.walk.step[2];
  switch (l.arrangement) {
    case Arrangement::grid:
      plan.filter = grid_pieces(l, needs, centres, filter_pitch);
      plan.image = {{.extents = l.image, .source = {}, .plane = 0}};
      plan.image_is_padded = false;
      break;
    case Arrangement::four_step:
      plan.filter = four_step_pieces(l, needs, centres);
      if (l.image[2] == image_pitch)
        plan.image = {{.extents = {1, 1, axes[axis].extent}, .source = {}, .plane = 0}};
      else
        plan.image = {{.extents = l.image, .source = {}, .plane = 0}};
      plan.image_is_padded = axes[axis].extent != l.image[0] * l.image[2];
      break;
    case Arrangement::causal_blocks: {
      bool const two = axes[l.walk.axis[1]].extent > 1;
      plan.image = causal_block_image(l, axes);
      plan.image_is_padded = plan.image.size() != 1;
      if (auto const source =
              single_taps(needs, centres, [&](int i) { return i == axis || (two && i == l.walk.axis[1]); })) {
        plan.filter = causal_block_pieces(l, axes, *source, filter_pitch);
        plan.within_block = {
            .extents = {std::min(axes[axis].filter, block), l.lengths[1], 1}, .source = *source, .plane = 0};
      }
      break;
    }
    case Arrangement::causal_tiles:
      plan.image = causal_tile_image(l, axes, image_pitch);
      plan.image_is_padded = plan.image.size() != 1;
      if (auto const source = single_taps(needs, centres, [&](int i) { return i == axis || i == l.walk.axis[2]; }))
        plan.filter = causal_tile_pieces(l, axes, *source, filter_pitch);
      break;
  }

  // A cyclic row axis transforms padding columns together with true ones.
  plan.image_is_padded |= l.real_axis == RealAxis::hermitian && image_pitch != l.image[2];

  auto const rows_capacity = std::size_t(g.groups) * lanes;
  plan.image_plane = std::size_t(l.image[0]) * l.image[1] * image_pitch;
  plan.filter_plane = std::size_t(l.positions[0]) * l.positions[1] * filter_pitch;
  plan.image_half = rows_capacity * half_pitch(g.image, lanes) * lanes * 2;
  plan.filter_half = rows_capacity * half_pitch(g.filter, lanes) * lanes * 2;
  plan.group = std::size_t(std::max(l.image[1], l.lengths[1])) * g.column_capacity * 2 * lanes;
  if (tiles) plan.group += std::size_t(g.tile.length) * tile_pitch(g) * 2 * lanes;
  plan.spectrum = rows_capacity * l.lengths[1] * l.lengths[2] * 2;
  plan.work = std::size_t(std::max(length, g.tile.length)) * 2 * lanes;
  return result;
}

}  // namespace

template <typename Real>
std::string TransformedPlan<Real>::text() const {
  auto const& g = geometry;
  auto const real = g.real_axis == RealAxis::hermitian ? concatenate(g.rows.length, " cyclic points")
                                                       : concatenate(g.rows.length, " right-angle points");
  auto const points = [](AxisKind kind, std::int64_t count) {
    return concatenate(count, kind == AxisKind::transform ? " cyclic points" : " points by a Toeplitz product");
  };
  std::string result;
  switch (arrangement) {
    case Arrangement::grid:
      result = concatenate("axis ", walk.axis[0], " ", real, ", axis ", walk.axis[2], " ",
                           points(g.column_kind, g.column_points));
      break;
    case Arrangement::four_step:
      result = concatenate("axis ", walk.axis[0], " in four steps: ", real, " by ", g.column_points);
      break;
    case Arrangement::causal_blocks:
      result = concatenate("axis ", walk.axis[0], " in blocks of ", walk.step[2], ": ", real, " within, ",
                           points(g.column_kind, g.column_points), " over earlier blocks",
                           g.period < g.image.columns ? concatenate(" of a run of ", g.period) : std::string(),
                           ", a block with itself directly");
      break;
    case Arrangement::causal_tiles:
      return concatenate(g.rows.length, " right-angle points along axis ", walk.axis[0], ", tiles of ", g.period,
                         " along axis ", walk.axis[2], " by ", g.tile.length, " cyclic points");
  }
  if (g.middle_points > 1) result += concatenate(", axis ", walk.axis[1], " ", points(g.middle_kind, g.middle_points));
  if (tile_rows) result += concatenate(", in rows of tiles of ", tile_rows);
  if (earlier) result += (tile_rows ? "; from earlier rows of tiles: " : "; between runs: ") + earlier->text();
  return result +
         concatenate(", ", transformed_kernels<Real>().lanes, " lanes of ", sizeof(Real) == 4 ? "fp32" : "fp64");
}

template <typename Real>
std::shared_ptr<TransformedPlan<Real> const> transformed_plan(std::array<Axis, 3> const& axes, Causality causality) {
  struct Entry {
    std::array<Axis, 3> axes;
    Causality causality;
    std::shared_ptr<TransformedPlan<Real> const> plan;
  };
  static std::mutex mutex;
  static std::list<Entry> entries;  // most recently used first
  constexpr std::size_t kept = 64;
  {
    std::lock_guard const lock(mutex);
    for (auto i = entries.begin(); i != entries.end(); ++i)
      if (i->axes == axes && i->causality == causality) {
        entries.splice(entries.begin(), entries, i);
        return i->plan;
      }
  }
  int const lanes = transformed_kernels<Real>().lanes;
  auto const [layout, earlier] = choose_layout(axes, causality, lanes);
  auto plan = make_plan<Real>(axes, layout);
  if (earlier) plan->earlier = make_plan<Real>(axes, *earlier);
  bool const small =
      std::all_of(axes.begin(), axes.end(), [](Axis const& axis) { return axis.extent <= precise_extent; });
  if (sizeof(Real) == 4 && small) plan->precise = make_plan<double>(axes, layout);
  std::lock_guard const lock(mutex);
  entries.push_front({axes, causality, plan});
  if (entries.size() > kept) entries.pop_back();
  return plan;
}

template struct TransformedPlan<float>;
template struct TransformedPlan<double>;
template std::shared_ptr<TransformedPlan<float> const> transformed_plan(std::array<Axis, 3> const&, Causality);
template std::shared_ptr<TransformedPlan<double> const> transformed_plan(std::array<Axis, 3> const&, Causality);

}  // namespace faltung::long_conv::cpu
