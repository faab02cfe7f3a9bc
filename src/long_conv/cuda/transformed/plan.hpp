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
  int log2_rows;        // complex points of the row transform; split: of both transforms together
  int log2_lengths[2];  // of the outer axes, 0 where there is one point; split: rows, columns
  int log2_segment;     // causal: of the segments that one line of threads computes; log2_rows is that of all of them
  std::int64_t units, images;
  std::int64_t chunk_units, chunk_images;
  std::int64_t filter_size, image_size;  // complex elements of a spectrum
  std::size_t workspace;

  bool precise_filters() const { return filter_precision != precision; }
  int active() const { return axes[0].extent > 1 ? 3 : axes[1].extent > 1 ? 2 : 1; }
};

Plan make_plan(Problem const&);

// A long line of 2^log2_points is 2^first x 2^second points.
struct SplitLengths {
  int first, second;
};
constexpr SplitLengths split_lengths(int log2_points) { return {log2_points / 2, log2_points - log2_points / 2}; }

// Where the parts of the workspace lie; all null with a null base, and `bytes` their size in any case.
struct Buffers {
  static constexpr int lengths = 14;
  void* twiddles[2][lengths] = {};  // [single, twice][log2_length]
  void* rotations[2][lengths] = {};
  void* roots = nullptr;
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
