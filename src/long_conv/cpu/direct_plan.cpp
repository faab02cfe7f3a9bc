#include "long_conv/cpu/direct_plan.hpp"

#include <algorithm>

namespace faltung::long_conv::cpu::direct {
namespace {

Extents tile_of(Extents tile, Index points) {
  while (volume(tile) > points) {
    auto& widest = *std::max_element(tile.begin(), tile.end());
    widest = (widest + 1) / 2;
  }
  return tile;
}

// The outermost axes are cut first: whole rows of taps make full chains.
Extents part_of(Extents part, Index points) {
  for (auto& axis : part) {
    Index const others = volume(part) / std::max<Index>(axis, 1);
    axis = std::clamp(points / std::max<Index>(others, 1), std::min<Index>(axis, 1), axis);
  }
  return part;
}

Index modulo(Index a, Index n) { return (a % n + n) % n; }

}  // namespace

Correlation make_correlation(Problem const& p, Product product) {
  Correlation result;
  for (int i = 0; i < 3; ++i) {
    auto const& [extent, filter, centre, boundary] = p.axes[i];
    auto& axis = result.axes[i];
    axis = {.outputs = extent,
            .taps = filter,
            .extent = extent,
            .shift = centre - (filter - 1),
            .wraps = boundary == Boundary::circular};
    if (product == Product::input_gradient) axis.shift = -centre;
    if (product == Product::filter_gradient) std::swap(axis.outputs, axis.taps);
    axis.taps_begin = 0, axis.taps_end = axis.taps;
    if (axis.wraps) {
      axis.shift = modulo(axis.shift, extent);
    } else {
      axis.taps_begin = std::clamp(-(axis.outputs - 1) - axis.shift, Index(0), axis.taps);
      axis.taps_end = std::clamp(extent - axis.shift, axis.taps_begin, axis.taps);
    }
    result.outputs[i] = axis.outputs;
    result.taps[i] = axis.taps_end - axis.taps_begin;
  }
  bool const large = volume(result.outputs) > tile_outputs && volume(result.taps) > small_tile;
  result.output_tile = tile_of(result.outputs, large ? small_tile : tile_outputs);
  result.tap_tile = tile_of(result.taps, large ? small_tile : tile_taps);
  result.tap_part = part_of(result.tap_tile, product == Product::filter_gradient ? part_grid : part_taps);
  return result;
}

BoxAxis make_box(CorrelationAxis const& axis, Segment outputs, Segment taps, Index halo) {
  Index const points = (outputs.end - outputs.begin) + (taps.end - taps.begin) - 1,
              source = outputs.begin + taps.begin + axis.shift;
  if (axis.wraps) return {{0, points}, {0, points}, modulo(source, axis.extent)};
  Segment real{std::clamp(-source, Index(0), points), 0};
  real.end = std::clamp(axis.extent - source, real.begin, points);
  return {real, {std::max(real.begin - halo, Index(0)), std::min(real.end + halo, points)}, source};
}

Index largest_box(Correlation const& c, Extents const& halo) {
  Index points = 1;
  for (int i = 0; i < 3; ++i) {
    Index const all = c.output_tile[i] + c.tap_tile[i] - 1;
    points *= c.axes[i].wraps ? all : std::min(all, c.axes[i].extent + 2 * halo[i]);
  }
  return points;
}

}  // namespace faltung::long_conv::cpu::direct
