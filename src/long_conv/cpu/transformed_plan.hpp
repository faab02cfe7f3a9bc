// Everything about a call of cpu.transformed that depends on extents, filter extents, centres and boundaries alone: how
// the axes are laid out in a staged plane, the lengths of the transforms, where each tap goes.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "fft/plan.hpp"
#include "long_conv/cpu/transformed_layout.hpp"
#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu {

// A box of points of x (or taps of k) and its place in the staged plane.
struct Piece {
  Extents extents;     // along rows, middle, columns of the plane
  Extents source;      // index of its first point, per axis of the problem
  std::int64_t plane;  // element of its first point
};

template <typename Real>
struct TransformedPlan {
  Geometry<Real> geometry;
  Arrangement arrangement;
  Walk walk;
  std::vector<Piece> image;  // of x, y, dy, dx
  std::vector<Piece>
      filter;  // of the folded filter; where a circular axis is padded, and between causal blocks, a tap is in two
  bool image_is_padded;  // some plane elements belong to no piece and must be zero
  // Blocks of a causal axis: the taps within a block, [distances of middle][rows]; extents all 0 where there are no
  // blocks.
  Piece within_block;

  // Taps of circular axes are first summed modulo the extent: tap m goes to (m - centre) modulo extent. The other axes
  // stay.
  bool folds;
  Extents folded;  // taps per axis afterwards

  // Elements of Real of the buffers of TransformedKernels, for one plane.
  std::size_t image_plane, filter_plane, image_half, filter_half, group, spectrum, work;

  std::unique_ptr<fft::Plan<Real>> rows, middle, columns, tile;
  std::vector<Real> turn, twiddle;
  std::vector<int> slot;

  // Where the contract asks more of fp32 than its transforms give: the same layout in fp64, for filters' spectra. Their
  // error counts for every image, and in full where a smooth filter has its spectrum in a few frequencies. Null
  // elsewhere.
  std::shared_ptr<TransformedPlan<double> const> precise;

  // Two causal axes: rows of the middle axis that are served at a time, a row of tiles; 0: all.
  std::int64_t tile_rows;

  // What comes from earlier runs of causal blocks, or earlier rows of tiles, to be added. Null where there are none.
  std::shared_ptr<TransformedPlan const> earlier;

  std::string text() const;  // for explain
};

// Cached: the plans of the last few dozen shapes are kept.
template <typename Real>
std::shared_ptr<TransformedPlan<Real> const> transformed_plan(std::array<Axis, 3> const& axes, Causality);

}  // namespace faltung::long_conv::cpu
