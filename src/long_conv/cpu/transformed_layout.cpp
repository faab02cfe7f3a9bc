#include "long_conv/cpu/transformed_layout.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include "fft/plan.hpp"

namespace faltung::long_conv::cpu {

AxisNeeds needs_of(Axis const& axis) {
  std::int64_t const limit = axis.extent - 1;
  if (axis.boundary == Boundary::circular) {
    if (fft::is_smooth(int(axis.extent))) return {{0, limit}, axis.extent, true, false};
    return {{-limit, limit}, axis.extent + limit, false, true};
  }
  Offsets const offsets{std::max(-axis.centre, -limit), std::min(axis.filter - 1 - axis.centre, limit)};
  return {offsets, axis.extent + offsets.reach(), false, false};
}

namespace {

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
  if (l.kinds[2] != AxisKind::transform && l.kinds[2] != AxisKind::tiles) {
    auto const pairs = [](std::int64_t points, std::int64_t distances) {
      return distances * (points - 0.5 * (double(distances) - 1));
    };
    double const middle = l.kinds[1] == AxisKind::transform ? double(l.lengths[1]) : pairs(l.image[1], l.lengths[1]);
    double const runs = l.period ? double(l.image[2]) / l.period : 1.0;
    product = middle * runs * pairs(l.period ? l.period : l.image[2], l.lengths[2]) * 5.0;
    if (l.kinds[2] == AxisKind::strict_toeplitz && l.level != Level::between_runs)
      within = middle / l.image[1] * strips * 0.5 * l.image[0] * (l.image[0] + 1) * 1.3;
  }
  double between_tiles = 0;
  if (l.arrangement == Arrangement::causal_tiles) {
    auto const strict = [](std::int64_t points, std::int64_t distances) {
      return (distances - 1) * (points - 0.5 * double(distances));
    };
    std::int64_t const tiles = (l.image[2] + l.period - 1) / l.period;
    product = 5.0 * strict(l.image[1], l.lengths[1]) *
              (tiles * 0.5 * l.period * (l.period + 1) + 2.0 * l.period * strict(tiles, l.tile_distances));
    between_tiles = double(l.image[1]) * double(tiles) * fft::cost(int(2 * l.period));
  }
  double const paired = l.real_axis == RealAxis::hermitian ? std::ceil(strips / 2) : strips;
  return lanes * (paired * fft::cost(int(l.lengths[0])) + transposition + within +
                  groups * (l.image[2] * transform(1) + l.lengths[1] * transform(2) + product + between_tiles));
}

// Tries the row lengths that could pay, keeps the cheapest.
void offer(std::optional<Layout>& best, Layout layout, std::int64_t minimum, bool exact, int lanes) {
  auto const consider = [&](std::int64_t length, RealAxis real_axis) {
    layout.lengths[0] = length;
    layout.real_axis = real_axis;
    layout.positions = {real_axis == RealAxis::hermitian ? length : 2 * length, layout.lengths[1],
                        layout.tile_distances ? layout.positions[2] : layout.lengths[2]};
    layout.cost = cost_of(layout, lanes);
    if (!best || layout.cost < best->cost) best = layout;
  };
  if (exact) return consider(minimum, RealAxis::hermitian);
  std::int64_t const least = (minimum + 1) / 2;
  consider(fft::best_length(int(least)), RealAxis::right_angle);
  consider(fft::best_length(int(least), lanes), RealAxis::right_angle);
}

// One long axis of extent N as rows x columns, n = r columns + c. Right-angle: columns fill whole registers, so that
// the plane is the axis as it lies in memory, and offsets below 0 start on a row of their own, as the sign change
// needs.
Layout choose_four_step(int axis, Axis const& a, AxisNeeds const& needs, int lanes) {
  std::optional<Layout> best;
  int const other = axis == 1 ? 0 : 1;
  auto const offer_columns = [&](std::int64_t columns, std::int64_t minimum, bool exact) {
    std::int64_t const rows = (a.extent + columns - 1) / columns;
    Layout layout{.arrangement = Arrangement::four_step,
                  .walk = {{axis, other, axis}, {columns, 1, 1}},
                  .image = {rows, 1, columns},
                  .lengths = {0, 1, columns}};
    // In rows: the transform of the rows has minimum / columns points.
    offer(best, layout, (minimum + columns - 1) / columns, exact, lanes);
  };
  if (needs.exact) {
    for (std::int64_t columns = 1; columns <= a.extent; ++columns)
      if (a.extent % columns == 0) offer_columns(columns, a.extent, true);
    return *best;
  }
  auto const [low, high] = needs.offsets;
  for (std::int64_t columns = lanes; columns < 2 * a.extent || columns == lanes; columns += lanes) {
    if (!fft::is_smooth(int(columns))) continue;
    bool const wraps = !needs.offsets.none() && low < 0;
    std::int64_t const apart = wraps ? round_up(std::max<std::int64_t>(high, 0) + 1, columns) - low : 0;
    offer_columns(columns, std::max(needs.minimum, apart), false);
  }
  if (!needs.offsets.none() && low < 0) {
    auto const columns = best->image[2], points = best->positions[0] * columns;
    best->wrapped = best->positions[0] - (points + low) / columns;
  }
  return *best;
}

// What columns across the problem's innermost axis cost, in units of what they save: a contiguous plane is then staged
// element by element. Measured forward and backward, K = 2N - 1, 512 planes: 33 x 32 points 31 ms so and 4.7 along the
// innermost axis, 31 x 63 36 and 7.7, 50 x 96 100 and 23; channels last 7.4 and 4.5, 10.5 and 7.6, 33 and 22.
constexpr double across_memory = 4;

Layout choose_rounded_layout(std::array<Axis, 3> const& axes, std::array<AxisNeeds, 3> const& needs, int lanes) {
  std::vector<int> real;  // axes of more than one point
  for (int i = 0; i < 3; ++i)
    if (axes[i].extent > 1) real.push_back(i);
  if (real.size() <= 1) {
    int const axis = real.empty() ? 2 : real[0];
    return choose_four_step(axis, axes[axis], needs[axis], lanes);
  }
  std::optional<Layout> best;
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
    Layout layout{.walk = walk};
    for (int a = 0; a < 3; ++a) {
      auto const& n = needs[walk.axis[a]];
      layout.image[a] = axes[walk.axis[a]].extent;
      if (a > 0) layout.lengths[a] = n.exact ? n.minimum : fft::best_length(int(n.minimum));
    }
    layout.wrapped = -std::min<std::int64_t>(0, needs[walk.axis[0]].offsets.low);
    std::optional<Layout> offered;
    offer(offered, layout, needs[walk.axis[0]].minimum, needs[walk.axis[0]].exact, lanes);
    if (walk.axis[2] != real.back()) offered->cost *= across_memory;
    if (!best || offered->cost < best->cost) best = offered;
  }
  return *best;
}

// Causal axes exactly: Toeplitz products over them; where every axis is causal, one is cut into blocks, transformed
// within.
Layouts choose_causal_layout(std::array<Axis, 3> const& axes, std::array<AxisNeeds, 3> const& needs, int lanes) {
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
      Layout layout{.walk = {{order[0], order[1], order[2]}, {1, 1, 1}}};
      for (int a = 0; a < 3; ++a) {
        auto const& n = needs[order[a]];
        layout.image[a] = axes[order[a]].extent;
        if (a == 2 || is_causal(axes[order[a]])) layout.kinds[a] = AxisKind::toeplitz;
        layout.lengths[a] = layout.kinds[a] == AxisKind::toeplitz ? std::min(layout.image[a], axes[order[a]].filter)
                            : n.exact                             ? n.minimum
                                                                  : fft::best_length(int(n.minimum));
      }
      layout.wrapped = -std::min<std::int64_t>(0, needs[order[0]].offsets.low);
      offer(best, layout, needs[order[0]].minimum, needs[order[0]].exact, lanes);
    }
    return {*best, std::nullopt};
  }
  int const axis = causal.back(), middle = causal.size() == 2 ? causal[0] : axis == 1 ? 0 : 1;
  auto const extent = axes[axis].extent, rows = axes[middle].extent;
  // Tap o meets block distances floor(o / block) and the next.
  auto const distances_of = [&](int of, std::int64_t block, std::int64_t blocks) {
    return std::min(blocks, (axes[of].filter - 1) / block + 2);
  };
  // tile_rows: of the middle axis that are served at a time; 0: all.
  auto const offer_blocks = [&](std::optional<Layout>& to, std::int64_t block, Level level, std::int64_t period,
                                std::int64_t tile_rows = 0) {
    std::int64_t const blocks = (extent + block - 1) / block, served = tile_rows ? tile_rows : rows;
    auto const middle_distances = std::min(served, is_causal(axes[middle]) ? axes[middle].filter : 1);
    Layout const layout{.arrangement = Arrangement::causal_blocks,
                        .level = level,
                        .period = period,
                        .tile_rows = tile_rows,
                        .walk = {{axis, middle, axis}, {1, 1, block}},
                        .image = {block, served, blocks},
                        .lengths = {0, middle_distances, distances_of(axis, block, period ? period : blocks)},
                        .kinds = {AxisKind::transform, AxisKind::toeplitz, AxisKind::strict_toeplitz},
                        .wrapped = block - 1};
    offer(to, layout, 2 * block, false, lanes);
  };
  std::optional<Layout> earlier;
  double least = 0;
  auto const consider = [&](Layout const& within, std::optional<Layout> const& between, double cost) {
    if (best && cost >= least) return;
    best = within;
    earlier = between;
    least = cost;
  };
  for (std::int64_t block = lanes; block < 2 * extent || block == lanes;
       block += std::max<std::int64_t>(lanes, round_up(block / 4, lanes))) {
    if (!fft::is_smooth(int(block))) continue;
    std::optional<Layout> single;
    offer_blocks(single, block, Level::only, 0);
    consider(*single, std::nullopt, single->cost);
    // Two levels: the second one must have a few runs to pay. Periods are multiples of what a Toeplitz product does at
    // a time.
    if (rows > 1) continue;
    for (std::int64_t const period : {8, 16, 32, 64}) {
      if (2 * block * period > extent) break;
      std::optional<Layout> within, runs;
      offer_blocks(within, block, Level::within_runs, period);
      offer_blocks(runs, block * period, Level::between_runs, 0);
      consider(*within, runs, within->cost + runs->cost);
    }
  }
  if (causal.size() == 2 && std::max(extent, rows) > precise_extent)
    for (std::int64_t const tile_rows : {16, 32, 48, 64})
      for (std::int64_t const block : {16, 32, 48, 64}) {
        if (tile_rows >= rows || block >= extent || block % lanes != 0) continue;
        std::int64_t const row_blocks = (rows + tile_rows - 1) / tile_rows;
        std::int64_t const distances = distances_of(axis, block, (extent + block - 1) / block);
        std::optional<Layout> within, tiles;
        offer_blocks(within, block, Level::only, 0, tile_rows);
        Layout layout{.arrangement = Arrangement::causal_tiles,
                      .period = block,
                      .tile_distances = distances,
                      .walk = {{middle, middle, axis}, {1, tile_rows, 1}},
                      .image = {tile_rows, row_blocks, extent},
                      .lengths = {0, distances_of(middle, tile_rows, row_blocks), block + 2 * block * distances},
                      .kinds = {AxisKind::transform, AxisKind::strict_toeplitz, AxisKind::tiles},
                      .wrapped = tile_rows - 1};
        layout.positions[2] = std::min(axes[axis].filter, extent);
        offer(tiles, layout, 2 * tile_rows, false, lanes);
        consider(*within, tiles, within->cost * double(row_blocks) + tiles->cost);
      }
  return {*best, earlier};
}

}  // namespace

Layouts choose_layout(std::array<Axis, 3> const& axes, Causality causality, int lanes) {
  std::array<AxisNeeds, 3> needs;
  for (int i = 0; i < 3; ++i) needs[i] = needs_of(axes[i]);
  bool const exact = causality == Causality::exact && std::any_of(axes.begin(), axes.end(), is_causal);
  return exact ? choose_causal_layout(axes, needs, lanes)
               : Layouts{choose_rounded_layout(axes, needs, lanes), std::nullopt};
}

}  // namespace faltung::long_conv::cpu
