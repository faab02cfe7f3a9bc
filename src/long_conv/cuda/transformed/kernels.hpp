// What the host tells the kernels of cuda.transformed, and the functions that launch them.
//
// Along its rows (the innermost axis) a real line of up to 2M points becomes M complex numbers: the transform of
// (x[n] - i x[n + M]) exp(-i pi n / 2M) holds the frequencies 2f + 1/2 of 2M, all that a real line needs. Products of
// such spectra are convolutions that wrap with their sign changed. The other axes are complex and wrap plainly.
#pragma once
#include <cuda_runtime_api.h>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::transformed {

enum class Precision { single, twice };

constexpr int most_log2_length = 12;

// A transform of 2^log2_length points, 8 to 4096, of 2^log2_lines lines in a block.
struct Transform {
  int log2_length, log2_lines;
  void const* twiddles;  // a table of the length, in the type of computation
  constexpr int threads() const { return 1 << (log2_length - 3 + log2_lines); }
  std::size_t shared_bytes(std::size_t real_bytes) const { return 2 * real_bytes * 9 * std::size_t(threads()); }
};

// Where the taps of an axis lie among the positions of its transform. The offset of tap m is m - centre: y[i] += x[i -
// offset] k[m]. Offsets 0 .. head - 1 have positions of that number, offsets -tail .. -1 the last ones.
struct TapAxis {
  int extent;
  int positions;
  int head, tail;
  std::int64_t filter, centre;  // centre in [0, extent) where circular
  bool circular;
  bool exact;  // circular with extent positions: every offset modulo extent once, else at two positions
  constexpr int count() const { return head + tail; }
};

// The part of a call that goes through the workspace at once. A unit is a filter with its images: a channel, or a
// channel of one sample where filters are per sample.
struct Chunk {
  std::int64_t channels;  // of the call
  std::int64_t first_unit, first_image;
  int units, images;
};

// Rows of images, [units, images, rows0, rows1] of the tensor <-> spectra[units, images][row0 pitch + row1][M].
struct ImageRows {
  Transform transform;
  void const* rotation;  // exp(-i pi n / 2M)
  void* spectra;
  std::int64_t image_stride;  // of spectra, elements
  int rows0, rows1, pitch;
  int extent;
  Chunk chunk;
  ConstView from;  // on the way back: x, read for the shortcut
  View to;         // inverse only
  Dtype dtype, shortcut_dtype;
  ConstVector shortcut;
};

// Rows of filters, by positions.
struct FilterRows {
  Transform transform;
  void const* rotation;
  void* spectra;
  std::int64_t unit_stride;
  TapAxis axes[3];
  Chunk chunk;
  ConstView from;
  View to;  // inverse only
  Dtype dtype;
  double scale;  // of every value
};

// Lines of complex numbers in `planes` planes. Plane i begins at i / minor.count() major_stride + position(i %
// minor.count()) minor_stride; point p of line l lies at p point_stride + l line_stride behind it.
struct ComplexLines {
  Transform transform;
  std::int64_t major_stride, minor_stride;
  std::int64_t point_stride, line_stride;
  int lines;
  int major;       // planes divided by minor.count()
  int head, tail;  // points [0, head) and the last `tail` hold something before a forward, after an inverse one
  int minor_head, minor_tail, minor_positions;
  bool contiguous;  // point_stride is 1, else line_stride is
};

// images[units, images] times filters[units], along the last axis: forward, product, inverse, in place.
struct LineProduct {
  ComplexLines lines;  // major_stride: of an image
  void* images;
  void const* filters;
  std::int64_t filter_stride;  // of a unit
  int units, images_per_unit;
  bool conjugate;  // of the filter
};

// gradients[units] = sum over images of dy conj(x), dy becomes dx = dy conj(filter) where asked for.
struct LineGradient {
  ComplexLines lines;
  void* x;
  void* dy;
  void const* filters;
  void* gradients;
  std::int64_t filter_stride;  // of filters and gradients
  int head, tail;              // of the gradient
  int units, images_per_unit;
  bool dx, dk;
  bool first, last;  // chunk of the batch: sums are kept in gradients in between
};

// One axis in one block: image rows with the product in between. chunk.units x chunk.images lines.
struct RowProduct {
  ImageRows rows;
  void const* filters;
  std::int64_t filter_stride;
  bool conjugate;
};

// dk of one axis in one block for each unit.
struct RowGradient {
  ImageRows x;
  ConstView dy;
  FilterRows filter;
};

// One long axis as rows x columns in the order of memory, n = row columns + column: the transform over rows with the
// twiddles that the transform over columns needs behind it.
struct Split {
  Transform transform;
  int log2_columns;
  void const* roots;  // two_level_roots of n points
  int log2_roots;     // n: 4M or a multiple

  void* spectra;
  std::int64_t stride;  // of an image or unit
};

// Of an image pieces 0, 2, 4, ... of piece_points each, as lines of their own; one piece is the whole image. Those of a
// causal level: restored points are added to the next piece of the image's sums.
struct ImageSplit {
  Split split;
  ImageRows rows;
  int pieces = 1;
  int piece_points = 0;
  void* sums = nullptr;  // [units, images, sum_stride], in the type of computation
  std::int64_t sum_stride = 0;
};

struct FilterSplit {
  Split split;
  FilterRows rows;
};

// A causal axis to the bit. A segment of 2^log2_segment points is computed by one line of threads: within blocks of 16
// points directly, then by levels b = 16, 32, ...: every second block of b points, transformed with 2b points, adds to
// the block behind it. No arithmetic of an output knows a later input.
inline constexpr int log2_causal_block = 4, most_log2_segment = 13;

// The spectra of the levels: taps 0 .. 2b - 1, at element b - 16 of a unit's filters.
struct CausalFilters {
  FilterRows rows;  // without transform, rotation and axes[2].head, which follow from the level
  void const* twiddles[most_log2_segment];
  void const* rotations[most_log2_segment];
  int log2_segment;
};

struct CausalRows {
  ImageRows rows;
  ConstView k;
  Dtype k_dtype;
  std::int64_t taps;
  void const* filters;
  std::int64_t filter_stride;
  void const* sums;  // [units, images, sum_stride] from earlier segments; null: none
  std::int64_t sum_stride;
  void const* twiddles[most_log2_segment];
  void const* rotations[most_log2_segment];
  int log2_segment, segments;
};

// Roots of unity, correctly rounded.
enum class TableKind {
  block_twiddles,   // exp(-2 pi i t / n) for a transform of n points, by pass
  rotation,         // exp(-i pi t / 2n), t < n
  two_level_roots,  // exp(-2 pi i t / n) is the product of entries t >> low and (n >> low) + t % 2^low, low = log2 n /
                    // 2
};
struct Table {
  void* to;
  int log2_length;
  TableKind kind;
  Precision precision;
};
struct Tables {
  static constexpr int most = 48;
  Table tables[most];
  int count = 0;
};
constexpr std::size_t table_entries(Table const& table) {
  int const low = table.log2_length / 2;
  if (table.kind == TableKind::two_level_roots)
    return (std::size_t(1) << (table.log2_length - low)) + (std::size_t(1) << low);
  return std::size_t(1) << table.log2_length;
}
void build_tables(Tables const&, cudaStream_t);

void transform_rows(ImageRows const&, Precision, cudaStream_t);
void restore_rows(ImageRows const&, Precision, cudaStream_t);
void transform_rows(FilterRows const&, Precision compute, Precision stored, cudaStream_t);
void restore_rows(FilterRows const&, Precision, cudaStream_t);
void multiply_rows(RowProduct const&, Precision, cudaStream_t);
void filter_gradient(RowGradient const&, Precision, cudaStream_t);

void transform_lines(ComplexLines const&, void const* from, void* to, Precision compute, Precision stored,
                     cudaStream_t);
void restore_lines(ComplexLines const&, void* data, Precision, cudaStream_t);
void multiply_lines(LineProduct const&, Precision, cudaStream_t);
void gradient_lines(LineGradient const&, Precision, cudaStream_t);

void transform_split(ImageSplit const&, Precision, cudaStream_t);
void restore_split(ImageSplit const&, Precision, cudaStream_t);
void transform_split(FilterSplit const&, Precision, cudaStream_t);
void restore_split(FilterSplit const&, Precision, cudaStream_t);

void transform_causal_filters(CausalFilters const&, Precision compute, Precision stored, cudaStream_t);
void multiply_causal_rows(CausalRows const&, Precision, cudaStream_t);

}  // namespace faltung::long_conv::cuda::transformed
