// Everything about a call of cuda.transformed that follows from its Problem: order and lengths of the axes, blocks,
// buffers, how much of the call goes through the workspace at once.
#pragma once
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {

enum class Arrangement {
  row,     // one axis, in one block
  split,   // one long axis, as rows x columns
  causal,  // one axis, causal to the bit
  grid     // two or three axes
};

struct Plan {
  Arrangement arrangement;
  std::array<int, 3> order;  // axis of the problem behind each axis here: axes of one point come first
  TapAxis axes[3];
  Precision precision;
  // Of the transforms of filters. Their error counts in every image, and in full where a smooth filter has its energy
  // in a few frequencies: fp32 does not hold the bound for up to 64 points an axis.
  Precision filter_precision;
  Length lengths[3];     // of the transforms, complex points; log2 is 0 where there is none; split: rows, columns, none
  int log2_points;       // split, causal: of the whole axis, padded
  int log2_segment;      // causal: of the segments that one line of threads computes
  bool direct_segments;  // causal: segments are products of cuda.line
  bool toeplitz;         // grid: the last axis is causal, to the bit, and not transformed
  bool toeplitz_pairs;   // so is axis 1 of three
  bool toeplitz_blocks;  // it is so long that blocks of it are transformed
  Pieces pieces;         // in the order of the axes here
  std::int64_t units, images;
  std::int64_t chunk_units, chunk_images;
  std::int64_t filter_size, image_size;  // complex elements of a spectrum
  std::size_t workspace;

  bool precise_filters() const { return filter_precision != precision; }
  int last() const { return active() == 3 ? 0 : 1; }  // axis of the product of a grid
  bool cyclic() const { return arrangement == Arrangement::grid && axes[2].exact; }
  // Complex elements between rows of spectra: cyclic rows have one more than points, and whole sectors.
  std::int64_t row_points() const {
    return log2_points ? std::int64_t(1) << log2_points : lengths[2].points() + (cyclic() ? 4 : 0);
  }
  // Along axis 1 in the spectra of images.
  int middle_positions() const { return toeplitz_pairs ? axes[1].extent : axes[1].positions; }
  int active() const { return axes[0].extent > 1 ? 3 : axes[1].extent > 1 ? 2 : 1; }
};

// Of images in pieces, where the extents of the problem are those of a piece; only for grids, forward.
Plan make_plan(Problem const&, Pieces const& = {});
// The same, kept for the problems that the thread asked for last: a call asks three times.
Plan const& plan_of(Problem const&, Pieces const& = {});
char const* reject_plan(Plan const&);  // why no call goes by it; null: it may

// A segment of so many points of a causal axis as a problem of cuda.line.
Problem line_problem(Problem const&, std::int64_t batch, std::int64_t channels, std::int64_t points);

// odd_allowed: lengths of three and five times powers of two; cyclic: whether rows may be, as they are in two axes and
// three.
TapAxis make_axis(Axis const&, bool innermost, bool odd_allowed, bool cyclic);

// Where the parts of the workspace lie; all null with a null base, and `bytes` their size in any case.
struct Buffers {
  struct LengthTables {
    void* twiddles = nullptr;
    void* odd_twiddles = nullptr;
    void* rotation = nullptr;     // roots where rows are cyclic
    void* frequencies = nullptr;  // of cyclic rows
  };
  LengthTables lengths[2][3];                 // [single, twice][axis]
  LengthTables causal[2][most_log2_segment];  // [log2_length], of radix 8
  LengthTables toeplitz_blocks;
  LengthTables split[most_log2_length + 1];             // [log2_length], of split axes
  void* split_twiddles[2 * most_log2_length + 1] = {};  // [log2_points]
  void* filters = nullptr;
  void* precise = nullptr;    // filters in fp64, before their last transform
  void* images = nullptr;     // x
  void* gradients = nullptr;  // dy, then dx
  void* filter_gradients = nullptr;
  void* level_filters = nullptr;  // of a causal level between segments
  void* sums = nullptr;           // of causal levels between segments
  std::size_t bytes = 0;
  Tables tables;

  Buffers(Plan const&, Direction, void* base);
};

}  // namespace faltung::long_conv::cuda::transformed
