// How cpu.transformed lays out the axes of a problem in a staged plane, and the lengths of its transforms: the cheapest
// by an estimate that knows extents, filter extents, centres and boundaries alone.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "long_conv/cpu/transformed_kernels.hpp"
#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu {

using Extents = std::array<std::int64_t, 3>;

// Up to this many points an axis the contract allows fp32 an error of 3e-7, beyond 1e-6.
inline constexpr std::int64_t precise_extent = 64;

// Axis a of the plane walks along axis axis[a] of the problem in steps of step[a].
struct Walk {
  std::array<int, 3> axis;
  Extents step;
};

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

AxisNeeds needs_of(Axis const&);

// Whether outputs of causal axes must not depend, to the bit, on later inputs: promised for y alone.
enum class Causality { exact, rounded };

enum class Arrangement {
  grid,           // each axis of the plane is an axis of the problem
  four_step,      // one long axis as rows x columns in the order of memory, with twiddles between the two transforms
  causal_blocks,  // one causal axis: columns are blocks, rows the places in a block
  causal_tiles    // two causal axes: rows are the places in a block of the first, middle its blocks, columns the second
};

// A long causal axis in two levels: blocks within a run of blocks, and runs as the blocks of a second layout.
enum class Level { only, within_runs, between_runs };

struct Layout {
  Arrangement arrangement = Arrangement::grid;
  Level level = Level::only;
  std::int64_t period = 0;          // blocks of a run, columns of a tile; 0 where all blocks are one run
  std::int64_t tile_rows = 0;       // of the middle axis that are served at a time; 0: all
  std::int64_t tile_distances = 0;  // causal_tiles: between tiles of columns
  Walk walk;
  Extents image;      // extents of the plane
  Extents lengths;    // of the transforms (rows: M or N of transformed_kernels.hpp), or distances of a Toeplitz product
  Extents positions;  // of a filter's plane
  RealAxis real_axis = RealAxis::right_angle;
  std::array<AxisKind, 3> kinds = {AxisKind::transform, AxisKind::transform, AxisKind::transform};
  std::int64_t wrapped = 0;  // rows of a filter's plane, the last ones, that hold offsets below 0
  double cost = 0;           // relative, of one plane forward
};

struct Layouts {
  Layout layout;
  std::optional<Layout> earlier;  // what comes from earlier runs or rows of tiles: its result is added
};

Layouts choose_layout(std::array<Axis, 3> const&, Causality, int lanes);

inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline bool is_causal(Axis const& axis) { return axis.boundary == Boundary::causal && axis.extent > 1; }

}  // namespace faltung::long_conv::cpu
