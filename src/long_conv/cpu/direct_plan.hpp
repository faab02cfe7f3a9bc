// The three products of long_conv as correlations, out[i] = sum over r of in[i + r + shift] w[r], and how one is cut
// into tiles that stay in the cache. Decided by extents, boundaries and the width of a register alone, so that bits do
// not depend on anything else.
#pragma once
#include <cstdint>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu::direct {

using Index = std::int64_t;
using Extents = std::array<Index, 3>;

inline Index volume(Extents const& e) { return e[0] * e[1] * e[2]; }

// Points of one tile of outputs: 4096 x 64 bytes of a register, with inputs and taps most of a 1 MB second-level cache.
inline constexpr Index tile_outputs = 4096;
// Taps of one tile.
inline constexpr Index tile_taps = 4096;
// Terms whose sum goes to one fp32 output, chain by chain; doubles add up such parts: taps of a filter, and points of
// the grid in its gradient, where sums are longer and a small filter has few results for errors to average out over.
inline constexpr Index part_taps = 1024;
inline constexpr Index part_grid = 256;

// Both, where both are large: 63 x 63 inputs between 32 x 32 outputs and 32 x 32 taps leave room in the same cache.
inline constexpr Index small_tile = 1024;

struct CorrelationAxis {
  Index outputs, taps, extent, shift;
  Index taps_begin, taps_end;  // taps that meet any input at all
  bool wraps;
};

struct Correlation {
  std::array<CorrelationAxis, 3> axes;
  Extents outputs, taps, output_tile, tap_tile, tap_part;
};

// y from x with k reversed; dx from dy with k; dk reversed from x with dy.
enum class Product { forward, input_gradient, filter_gradient };

Correlation make_correlation(Problem const&, Product);

struct Segment {
  Index begin, end;
};

// The x that a tile of outputs and a tile of taps need along one axis, in coordinates of the tile (output 0, tap 0 is
// point 0).
struct BoxAxis {
  Segment real, box;  // box contains real and the halo of zeros around it
  Index source;       // in-coordinate of point 0
};

BoxAxis make_box(CorrelationAxis const&, Segment outputs, Segment taps, Index halo);

// Points that the largest box of the correlation takes.
Index largest_box(Correlation const&, Extents const& halo);

}  // namespace faltung::long_conv::cpu::direct
