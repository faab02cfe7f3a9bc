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

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

// Offsets o = m - centre of taps that can meet an input: y[i] += x[i - o] k[o + centre], |o| < extent.
struct Offsets {
  std::int64_t low, high;  // high < low: none
  bool none() const { return high < low; }
  std::int64_t reach() const { return none() ? 0 : std::max({std::int64_t(0), -low, high}); }
};

// What an axis asks of a cyclic transform.
struct AxisNeeds {
  Offsets offsets;       // of the folded filter's taps, extended periodically where the axis is circular but not exact
  std::int64_t minimum;  // points: extent + reach leaves the wrapped part outside the crop
  bool exact;            // circular with a smooth extent: exactly extent points, no padding
  bool periodic;         // circular otherwise: every tap at two offsets
};

AxisNeeds needs_of(Axis const& axis) {
  std::int64_t const limit = axis.extent - 1;
  if (axis.boundary == Boundary::circular) {
    if (fft::is_smooth(int(axis.extent))) return {{0, limit}, axis.extent, true, false};
    return {{-limit, limit}, axis.extent + limit, false, true};
  }
  Offsets const offsets{std::max(-axis.centre, -limit), std::min(axis.filter - 1 - axis.centre, limit)};
  return {offsets, axis.extent + offsets.reach(), false, false};
}

// One choice of how to lay out the axes.
struct Layout {
  Walk walk;
  Extents image;      // extents of the plane
  Extents lengths;    // of the transforms: M or N of the rows, P of middle and columns
  Extents positions;  // of a filter's plane
  RealAxis real_axis;
  std::array<AxisKind, 3> kinds = {AxisKind::transform, AxisKind::transform, AxisKind::transform};
  std::int64_t block;    // 0, or the block length of a folded 1D axis (rows: blocks, columns: place in the block)
  std::int64_t wrapped;  // rows of a filter's plane, the last ones, that hold offsets below 0
  double cost;
};

double cost_of(Layout const& l, int lanes) {
  auto const transform = [&](int axis) {
    return l.kinds[axis] == AxisKind::transform && l.lengths[axis] > 1 ? fft::cost(int(l.lengths[axis])) : 0.0;
  };
  double const strips = double(l.image[1]) * round_up(l.image[2], lanes) / lanes;
  std::int64_t const frequencies = l.real_axis == RealAxis::hermitian ? l.lengths[0] / 2 + 1 : l.lengths[0];
  double const groups = double(round_up(frequencies, lanes)) / lanes;
  double const transposition = 4.0 * groups * lanes * strips;
  // Pairs of a Toeplitz product: 4 multiply-adds and their loads; of a block with itself: one.
  double product = 3.0 * l.lengths[1] * l.lengths[2], within = 0;
  if (l.kinds[2] != AxisKind::transform) {
    double const pairs = l.kinds[1] == AxisKind::transform ? double(l.lengths[1]) : 0.5 * l.image[1] * (l.image[1] + 1);
    product = pairs * 0.5 * l.image[2] * (l.image[2] + 1) * 5.0;
    if (l.kinds[2] == AxisKind::strict_toeplitz)
      within = pairs / l.image[1] * strips * 0.5 * l.image[0] * (l.image[0] + 1) * 1.3;
  }
  return lanes * (strips * fft::cost(int(l.lengths[0])) + transposition + within +
                  groups * (l.image[2] * transform(1) + l.lengths[1] * transform(2) + product));
}

// Tries the row lengths that could pay, keeps the cheapest.
void offer(std::optional<Layout>& best, Layout layout, std::int64_t minimum, bool exact, int lanes) {
  auto const consider = [&](std::int64_t length, RealAxis real_axis) {
    layout.lengths[0] = length;
    layout.real_axis = real_axis;
    layout.positions = {real_axis == RealAxis::hermitian ? length : 2 * length, layout.lengths[1], layout.lengths[2]};
    layout.cost = cost_of(layout, lanes);
    if (!best || layout.cost < best->cost) best = layout;
  };
  if (exact) return consider(minimum, RealAxis::hermitian);
  std::int64_t const least = (minimum + 1) / 2;
  consider(fft::best_length(int(least)), RealAxis::right_angle);
  consider(fft::best_length(int(least), lanes), RealAxis::right_angle);
}

Layout choose_layout(std::array<Axis, 3> const& axes, std::array<AxisNeeds, 3> const& needs, int lanes) {
  std::vector<int> real;  // axes of more than one point
  for (int i = 0; i < 3; ++i)
    if (axes[i].extent > 1) real.push_back(i);
  std::optional<Layout> best;
  if (real.size() <= 1) {
    // One long axis: rows are blocks, columns the places in a block; tap o = d block + e serves block distances d and d
    // + 1.
    int const axis = real.empty() ? 2 : real[0], other = axis == 1 ? 0 : 1;
    auto const& n = needs[axis];
    auto const extent = axes[axis].extent;
    Offsets const offsets = n.exact ? Offsets{-(extent - 1), extent - 1} : n.offsets;
    for (std::int64_t block = lanes; block < 2 * extent || block == lanes;
         block += std::max<std::int64_t>(lanes, round_up(block / 4, lanes))) {
      std::int64_t const blocks = (extent + block - 1) / block;
      auto const distance = [&](std::int64_t d) {
        return std::clamp<std::int64_t>(offsets.none() ? 0 : d, 0, blocks - 1);
      };
      auto const wrapped = distance(-floor_div(offsets.low, block)),
                 ahead = distance(floor_div(offsets.high, block) + 1);
      Layout const layout{.walk = {{axis, other, axis}, {block, 1, 1}},
                          .image = {blocks, 1, block},
                          .lengths = {0, 1, fft::best_length(int(2 * block - 1))},
                          .positions = {},
                          .real_axis = {},
                          .block = block,
                          .wrapped = wrapped,
                          .cost = 0};
      offer(best, layout, blocks + std::max(wrapped, ahead), false, lanes);
    }
    return *best;
  }
  // Columns along the innermost axis of the problem first: ties keep what staging likes.
  std::array<int, 3> order;
  if (real.size() == 3) {
    order = {0, 1, 2};
  } else {
    int const unit = 3 - real[0] - real[1];
    order = {real[0], unit, real[1]};
  }
  std::array<std::array<int, 3>, 6> const permutations{
      {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}}};
  for (auto const& permutation : permutations) {
    Walk const walk{{order[permutation[0]], order[permutation[1]], order[permutation[2]]}, {1, 1, 1}};
    if (real.size() == 2 && axes[walk.axis[1]].extent > 1) continue;
    Layout layout{.walk = walk,
                  .image = {},
                  .lengths = {},
                  .positions = {},
                  .real_axis = {},
                  .block = 0,
                  .wrapped = 0,
                  .cost = 0};
    for (int a = 0; a < 3; ++a) {
      auto const& n = needs[walk.axis[a]];
      layout.image[a] = axes[walk.axis[a]].extent;
      if (a > 0) layout.lengths[a] = n.exact ? n.minimum : fft::best_length(int(n.minimum));
    }
    layout.wrapped = -std::min<std::int64_t>(0, needs[walk.axis[0]].offsets.low);
    offer(best, layout, needs[walk.axis[0]].minimum, needs[walk.axis[0]].exact, lanes);
  }
  return *best;
}

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

std::vector<Piece> filter_pieces(Layout const& l, std::array<AxisNeeds, 3> const& needs, Extents const& centres,
                                 std::int64_t pitch) {
  std::vector<Piece> pieces;
  std::int64_t const row_pitch = l.positions[1] * pitch;
  if (l.block == 0) {
    std::array<std::vector<Run>, 3> runs;
    for (int a = 0; a < 3; ++a) runs[a] = runs_of(needs[l.walk.axis[a]], centres[l.walk.axis[a]], l.positions[a]);
    for (auto const& row : runs[0])
      for (auto const& middle : runs[1])
        for (auto const& column : runs[2]) {
          Piece piece{.extents = {row.length, middle.length, column.length},
                      .source = {},
                      .plane = row.position * row_pitch + middle.position * pitch + column.position};
          piece.source[l.walk.axis[0]] = row.tap;
          piece.source[l.walk.axis[1]] = middle.tap;
          piece.source[l.walk.axis[2]] = column.tap;
          pieces.push_back(piece);
        }
    return pieces;
  }
  // A folded axis: offset o = d block + e with e in (-block, block), for every block distance d that the grid has.
  int const axis = l.walk.axis[0];
  auto const& n = needs[axis];
  auto const taps = single_taps(needs, centres, [&](int i) { return i == axis; });
  if (!taps) return {};
  Extents const source = *taps;
  std::int64_t const extent = n.periodic || n.exact ? n.offsets.high + 1 : 0;
  auto const add = [&](std::int64_t d, std::int64_t low, std::int64_t high, std::int64_t tap_of_zero) {
    if (high < low) return;
    auto const e = low - d * l.block;
    Piece piece{.extents = {1, 1, high - low + 1},
                .source = source,
                .plane = (d < 0 ? l.positions[0] + d : d) * row_pitch + (e < 0 ? l.positions[2] + e : e)};
    piece.source[axis] = low + tap_of_zero;
    if (!pieces.empty()) {
      // A further row of the piece before it, or of the one before that (the two halves of a row alternate).
      for (std::size_t back = 1; back <= 2 && back <= pieces.size(); ++back) {
        auto& before = pieces[pieces.size() - back];
        if (before.extents[2] == piece.extents[2] &&
            before.source[axis] + before.extents[0] * l.block == piece.source[axis] &&
            before.plane + before.extents[0] * row_pitch == piece.plane) {
          ++before.extents[0];
          return;
        }
      }
    }
    pieces.push_back(piece);
  };
  auto const blocks = l.image[0];
  for (std::int64_t d = -(blocks - 1); d < blocks; ++d)
    for (bool const below : {false, true}) {
      auto const first = d * l.block - (below ? l.block - 1 : 0),
                 last = below ? d * l.block - 1 : d * l.block + l.block - 1;
      if (extent == 0) {
        add(d, std::max(first, n.offsets.low), std::min(last, n.offsets.high), centres[axis]);
      } else {  // circular: tap t = o modulo extent
        add(d, std::max<std::int64_t>(first, 0), std::min(last, extent - 1), 0);
        add(d, std::max(first, -(extent - 1)), std::min<std::int64_t>(last, -1), extent);
      }
    }
  return pieces;
}

std::vector<Piece> image_pieces(Layout const& l, std::array<Axis, 3> const& axes, std::int64_t pitch) {
  if (l.block == 0) return {{.extents = l.image, .source = {}, .plane = 0}};
  int const axis = l.walk.axis[0];
  bool const blocks_are_columns = l.kinds[2] == AxisKind::strict_toeplitz;
  auto const full = axes[axis].extent / l.block, rest = axes[axis].extent % l.block;
  std::vector<Piece> pieces;
  auto const add = [&](std::int64_t first, std::int64_t blocks, std::int64_t length) {
    Piece piece{.extents = blocks_are_columns ? Extents{length, l.image[1], blocks} : Extents{blocks, 1, length},
                .source = {},
                .plane = blocks_are_columns ? first : first * pitch};
    piece.source[axis] = first * l.block;
    pieces.push_back(piece);
  };
  if (full) add(0, full, l.block);
  if (rest) add(full, 1, rest);
  return pieces;
}

// ---- causal axes, exactly: Toeplitz products over them; where every axis is causal, one is cut into blocks,
// transformed within ----

bool is_causal(Axis const& axis) { return axis.boundary == Boundary::causal && axis.extent > 1; }

Layout choose_causal_layout(std::array<Axis, 3> const& axes, std::array<AxisNeeds, 3> const& needs, int lanes) {
  std::vector<int> causal, other;  // axes of more than one point
  for (int i = 0; i < 3; ++i)
    if (axes[i].extent > 1) (is_causal(axes[i]) ? causal : other).push_back(i);
  std::optional<Layout> best;
  if (!other.empty()) {
    // Rows and, with two of them, the middle axis are transformed; the last axes are the causal ones.
    std::vector<int> order = other;
    order.insert(order.end(), causal.begin(), causal.end());
    if (order.size() == 2) order.insert(order.begin() + 1, 3 - order[0] - order[1]);
    for (int swapped = 0; swapped < (other.size() == 2 ? 2 : 1); ++swapped) {
      if (swapped) std::swap(order[0], order[1]);
      Layout layout{.walk = {{order[0], order[1], order[2]}, {1, 1, 1}},
                    .image = {},
                    .lengths = {},
                    .positions = {},
                    .real_axis = {},
                    .block = 0,
                    .wrapped = 0,
                    .cost = 0};
      for (int a = 0; a < 3; ++a) {
        auto const& n = needs[order[a]];
        layout.image[a] = axes[order[a]].extent;
        if (a == 2 || is_causal(axes[order[a]])) layout.kinds[a] = AxisKind::toeplitz;
        layout.lengths[a] = layout.kinds[a] == AxisKind::toeplitz ? layout.image[a]
                            : n.exact                             ? n.minimum
                                                                  : fft::best_length(int(n.minimum));
      }
      layout.wrapped = -std::min<std::int64_t>(0, needs[order[0]].offsets.low);
      offer(best, layout, needs[order[0]].minimum, needs[order[0]].exact, lanes);
    }
    return *best;
  }
  int const axis = causal.back(), middle = causal.size() == 2 ? causal[0] : axis == 1 ? 0 : 1;
  auto const extent = axes[axis].extent;
  for (std::int64_t block = lanes; block < 2 * extent || block == lanes;
       block += std::max<std::int64_t>(lanes, round_up(block / 4, lanes))) {
    if (!fft::is_smooth(int(block))) continue;
    std::int64_t const blocks = (extent + block - 1) / block, rows = axes[middle].extent;
    Layout layout{.walk = {{axis, middle, axis}, {1, 1, block}},
                  .image = {block, rows, blocks},
                  .lengths = {0, rows, blocks},
                  .positions = {},
                  .real_axis = {},
                  .kinds = {AxisKind::transform, AxisKind::toeplitz, AxisKind::strict_toeplitz},
                  .block = block,
                  .wrapped = block - 1,
                  .cost = 0};
    offer(best, layout, 2 * block, false, lanes);
  }
  return *best;
}

// Tap o = d block + e of the axis in blocks serves block distances d (e >= 0) and d + 1 (e < 0): columns are distances,
// rows places.
std::vector<Piece> causal_block_pieces(Layout const& l, std::array<Axis, 3> const& axes, Extents const& source,
                                       std::int64_t pitch) {
  std::vector<Piece> pieces;
  int const axis = l.walk.axis[0];
  auto const middle = std::min(axes[l.walk.axis[1]].filter, l.image[1]);
  auto const last = std::min(axes[axis].filter, axes[axis].extent) - 1;  // tap
  auto const row_pitch = l.positions[1] * pitch;
  for (bool const below : {false, true}) {
    auto const first_row = below ? l.positions[0] - (l.block - 1) : 0, length = below ? l.block - 1 : l.block;
    auto const tap_of = [&](std::int64_t d) { return d * l.block - (below ? l.block - 1 : 0); };
    auto const add = [&](std::int64_t d, std::int64_t columns, std::int64_t rows) {
      if (columns <= 0 || rows <= 0) return;
      Piece piece{.extents = {rows, middle, columns}, .source = source, .plane = first_row * row_pitch + d};
      piece.source[axis] = tap_of(d);
      pieces.push_back(piece);
    };
    // Distances 1 .. full - 1 have all their taps, `full` may have some.
    std::int64_t full = 1;
    while (full < l.image[2] && tap_of(full) + length - 1 <= last) ++full;
    add(1, full - 1, length);
    if (full < l.image[2]) add(full, 1, last - tap_of(full) + 1);
  }
  return pieces;
}

template <typename Real>
std::shared_ptr<TransformedPlan<Real> const> make_plan(std::array<Axis, 3> const& axes, Causality causality) {
  auto const& kernels = transformed_kernels<Real>();
  int const lanes = kernels.lanes;
  std::array<AxisNeeds, 3> needs;
  for (int i = 0; i < 3; ++i) {
    require(axes[i].extent < (std::int64_t(1) << 28), "cpu.transformed: expected an extent below 2^28, got ",
            axes[i].extent);
    needs[i] = needs_of(axes[i]);
  }
  bool const exact = causality == Causality::exact && std::any_of(axes.begin(), axes.end(), is_causal);
  auto const l = exact ? choose_causal_layout(axes, needs, lanes) : choose_layout(axes, needs, lanes);
  auto result = std::make_shared<TransformedPlan<Real>>();
  auto& plan = *result;
  plan.walk = l.walk;
  plan.cost = l.cost;
  plan.rows = std::make_unique<fft::Plan<Real>>(int(l.lengths[0]), kernels.max_radix);
  auto const length_of = [&](int axis) { return l.kinds[axis] == AxisKind::transform ? int(l.lengths[axis]) : 1; };
  plan.middle = std::make_unique<fft::Plan<Real>>(length_of(1), kernels.max_radix);
  plan.columns = std::make_unique<fft::Plan<Real>>(length_of(2), kernels.max_radix);

  auto& g = plan.geometry;
  g.real_axis = l.real_axis;
  int const length = int(l.lengths[0]);
  g.frequencies = l.real_axis == RealAxis::hermitian ? length / 2 + 1 : length;
  g.groups = int(round_up(g.frequencies, lanes) / lanes);
  g.rows = plan.rows->passes();
  g.middle = plan.middle->passes();
  g.columns = plan.columns->passes();
  g.middle_kind = l.kinds[1];
  g.column_kind = l.kinds[2];
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
  g.column_capacity = std::max<std::int64_t>({image_pitch, l.lengths[2], filter_pitch});

  Extents centres;
  plan.folds = false;
  for (int i = 0; i < 3; ++i) {
    bool const circular = axes[i].boundary == Boundary::circular;
    plan.folded[i] = circular ? axes[i].extent : axes[i].filter;
    centres[i] = circular ? 0 : axes[i].centre;
    plan.folds |= circular && !(axes[i].filter == axes[i].extent && axes[i].centre == 0);
  }
  plan.within_block = {};
  if (exact && l.block) {
    bool const two = axes[l.walk.axis[1]].extent > 1;
    auto const source =
        single_taps(needs, centres, [&](int i) { return i == l.walk.axis[0] || (two && i == l.walk.axis[1]); });
    if (source) {
      plan.filter = causal_block_pieces(l, axes, *source, filter_pitch);
      plan.within_block = {.extents = {std::min(axes[l.walk.axis[0]].filter, l.block),
                                       std::min(two ? axes[l.walk.axis[1]].filter : 1, l.image[1]), 1},
                           .source = *source,
                           .plane = 0};
    }
  } else {
    plan.filter = filter_pieces(l, needs, centres, filter_pitch);
  }
  plan.image = image_pieces(l, axes, image_pitch);
  plan.image_is_padded = plan.image.size() != 1 || plan.image[0].extents != l.image;

  auto const rows_capacity = std::size_t(g.groups) * lanes;
  plan.image_plane = std::size_t(l.image[0]) * l.image[1] * image_pitch;
  plan.filter_plane = std::size_t(l.positions[0]) * l.positions[1] * filter_pitch;
  plan.image_half = rows_capacity * l.image[1] * image_pitch * 2;
  plan.filter_half = rows_capacity * l.positions[1] * filter_pitch * 2;
  plan.group = std::size_t(l.lengths[1]) * g.column_capacity * 2 * lanes;
  plan.spectrum = rows_capacity * l.lengths[1] * l.lengths[2] * 2;
  plan.work = std::size_t(length) * 2 * lanes;
  return result;
}

}  // namespace

template <typename Real>
std::string TransformedPlan<Real>::text() const {
  auto const& g = geometry;
  auto const real = g.real_axis == RealAxis::hermitian ? concatenate(g.rows.length, " cyclic points")
                                                       : concatenate(g.rows.length, " right-angle points");
  auto result = walk.axis[0] == walk.axis[2]
                    ? concatenate("blocks of ", walk.step[0], ": ", real, " over blocks, ", g.columns.length, " within")
                    : concatenate("rows (axis ", walk.axis[0], ") ", real, ", columns (axis ", walk.axis[2], ") ",
                                  g.columns.length);
  if (g.middle.length > 1) result += concatenate(", middle (axis ", walk.axis[1], ") ", g.middle.length);
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
  auto plan = make_plan<Real>(axes, causality);
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
