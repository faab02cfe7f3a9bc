// When cpu.direct serves: a model of its time and of cpu.transformed's, per image, in microseconds of one AMD Zen 5
// core with AVX-512. Ratios are what counts; they hold within a third for other vector widths and for fp64, where both
// sides slow down alike. Bits depend on this choice, so it looks at extents, filters, centres, boundaries and
// arithmetic alone.
#pragma once
#include <algorithm>
#include <cmath>

#include "long_conv/cpu/transformed.hpp"
#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu {

struct DirectCost {
  // 16 multiply-adds. Measured 0.13e-3 (1D, 128 taps) to 0.18e-3 (7x7 on 64x64); two a cycle would be 0.12e-3.
  double multiply_adds = 0.16e-3;
  // One point in and out of interleaved scratch: 1x1 on 32x32 takes 0.42 us an image.
  double point = 0.4e-3;
  // dx and dk are two products (1.7 where the filter is small, 2.2 on small grids); doubles have half the lanes.
  double backward = 2.0, in_double = 1.8;
};

struct TransformCost {
  // Per point of the transforms x log2 of their number x share of the points that is not padding. Measured and
  // modelled: 2D, K = 2N - 1: N = 8 0.28, 0.28; 12 0.42, 0.40; 16 0.45, 0.60; 32 2.3, 2.2 us; 7x7 on 32 1.15, 1.14;
  // 64 4.0, 4.2; 128 19, 19 us; 1D, 128 taps on 1024: 1.07, 1.1 us.
  double butterflies = 0.082e-3;
  double butterflies_3d = 0.3e-3;  // N = 8, K = 15: 4.7, 6.5 us; 3x3x3 on 16: 20, 17 us
  double call = 0.2, call_1d = 0.25;
  // dx and dk share the transform of dy.
  double backward = 1.7, in_double = 1.6;
  // Forward along a causal axis, exactly: 1D, 256 taps on 256 0.56 instead of 0.40 us, 1024 on 1024 2.3 instead of 1.5
  // us.
  double causal = 1.6;
  // Along two, times sqrt(points x taps), up to 64 points an axis and, in tiles, beyond: as many taps as points, 40x40
  // 74, 64x64 187 us; 80x80 98, 96x96 135, 128x128 215, 192x192 515, 256x256 1204 us.
  double doubly_causal = 0.046, in_tiles = 0.016;
};

// Sum over d in [begin, end) of max(0, extent - |d|): the pairs of an output and a tap that meet input.
inline double meeting_pairs(double extent, double begin, double end) {
  // Of d in [0, limit).
  auto const from_zero = [&](double limit) {
    double const count = std::clamp(limit, 0.0, extent);
    return count * extent - count * (count - 1) / 2;
  };
  double const positive = from_zero(end) - from_zero(begin), negative = from_zero(1 - begin) - from_zero(1 - end);
  double const zero = begin <= 0 && end > 0 ? extent : 0;
  return positive + negative - zero;
}

inline double direct_time(Problem const& p, bool in_double) {
  DirectCost const cost;
  double pairs = 1, points = 1;
  for (int i = 0; i < 3; ++i) {
    auto const& [extent, filter, centre, boundary] = p.axes[i];
    double const n = double(extent), all = n * double(filter);
    // A block of outputs, four along the inner axes, goes through the taps that any of them needs.
    double const blocked = i == 0 ? 0 : 3 * n;
    pairs *= boundary == Boundary::circular
                 ? all
                 : std::min(all, meeting_pairs(n, double(centre) - double(filter) + 1, double(centre) + 1) + blocked);
    // A circular axis is staged with its turns.
    points *= boundary == Boundary::circular ? n + double(filter) - 1 : n;
  }
  return (cost.multiply_adds * pairs / 16 + cost.point * points) * (in_double ? cost.in_double : 1.0) *
         (p.direction == Direction::backward ? cost.backward : 1.0);
}

inline double transform_time(Problem const& p, bool in_double) {
  TransformCost const cost;
  double length = 1, points = 1, taps = 1, longest = 0;
  int causal = 0;
  for (auto const& [extent, filter, centre, boundary] : p.axes) {
    double const n = double(extent);
    double const reach = std::clamp(std::max(double(centre), double(filter) - 1 - double(centre)), 0.0, n - 1);
    length *= boundary == Boundary::circular ? n : n + reach;
    points *= n;
    longest = std::max(longest, n);
    taps *= std::min(n, double(filter));
    causal += boundary == Boundary::causal && extent > 1 && p.direction == Direction::forward;
  }
  if (causal == 3) {
    // Pairs of slices of the outermost axis, each a product along the other two.
    auto const& [extent, filter, centre, boundary] = p.axes[0];
    double const depth = double(extent), pairs = meeting_pairs(depth, 1 - std::min(depth, double(filter)), 1);
    return pairs * transform_time(transformed::slice_of(p), in_double);
  }
  if (causal > 1)
    return (longest > 64 ? cost.in_tiles : cost.doubly_causal) * std::sqrt(points * taps) *
           (in_double ? cost.in_double : 1.0);
  double const share = std::pow(points / length, 1.0 / p.rank);
  double const work = length * std::log2(std::max(length, 2.0)) * share;
  double const time =
      (p.rank == 1 ? cost.call_1d : cost.call) + (p.rank == 3 ? cost.butterflies_3d : cost.butterflies) * work;
  return time * (causal ? cost.causal : 1.0) * (in_double ? cost.in_double : 1.0) *
         (p.direction == Direction::backward ? cost.backward : 1.0);
}

}  // namespace faltung::long_conv::cpu
