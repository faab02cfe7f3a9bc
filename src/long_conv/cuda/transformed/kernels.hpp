// What the host tells the kernels of cuda.transformed, and the functions that launch them.
//
// Along its rows (the innermost axis) a real line of up to 2M points becomes M complex numbers: the transform of
// (x[n] - i x[n + M]) exp(-i pi n / 2M) holds the frequencies 2f + 1/2 of 2M, all that a real line needs. Products of
// such spectra are convolutions that wrap with their sign changed. The other axes are complex and wrap plainly.
// Cyclic rows, of circular axes of 2M points exactly, are x[2n] + i x[2n + 1]; from their transform follow the
// frequencies 0 .. M of 2M, which are stored in order.
#pragma once
#include <cuda_runtime_api.h>

#include <array>

#include "cuda/divisor.hpp"
#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::transformed {

enum class Precision { single, twice };

using faltung::cuda::Divisor;

constexpr int most_log2_length = 12;

// A length of odd 2^log2 points, odd = 1, 3 or 5.
struct Length {
  int odd = 1, log2 = 0;
  constexpr int points() const { return odd << log2; }
};

// A thread holds 2^log2_radix points of each of the odd parts: sixteen where that saves a pass through shared memory,
// four of five parts, where eight would leave too few threads.
// The order of slots follows from it, so it is the same for every kernel and precision.
constexpr int log2_radix(Length length) {
  return length.odd == 5 ? 2 : length.odd == 1 && (length.log2 == 7 || length.log2 == 8 || length.log2 >= 10) ? 4 : 3;
}

// Neighbouring threads: neighbouring points of a line, or the same point of neighbouring lines.
enum class Lines { contiguous, interleaved };

// Lines a block takes, a power of two: 2048 to 4096 points, 128 to 512 threads (256 where there are
// odd parts). Interleaved lines: at least eight side by side where possible, so that whole sectors of memory are read.
constexpr int log2_block_lines(bool contiguous, Length length) {
  auto const at_least_0 = [](int value) { return value < 0 ? 0 : value; };
  auto const least = [](int a, int b) { return a < b ? a : b; };
  if (length.odd > 1)
    return contiguous ? at_least_0(10 - length.log2) : least(4, at_least_0(8 + log2_radix(length) - length.log2));
  int const filled = at_least_0(11 - length.log2);
  return contiguous ? filled : least(filled < 3 ? 3 : filled, most_log2_length - length.log2);
}

// A transform of 8 to 4096 points, of 2^log2_lines lines in a block.
struct Transform {
  Length length;
  int log2_lines;
  void const* twiddles;      // a table of the power of two in the length, in the type of computation
  void const* odd_twiddles;  // likewise; null where odd is 1
  constexpr int threads() const { return 1 << (length.log2 - log2_radix(length) + log2_lines); }
  std::size_t shared_bytes(std::size_t real_bytes) const {
    std::size_t const points = std::size_t(1) << (length.log2 + log2_lines);
    return 2 * real_bytes * length.odd * (points + (points >> log2_radix(length)));
  }
};

// Where the taps of an axis lie among the positions of its transform. The offset of tap m is m - centre: y[i] += x[i -
// offset] k[m]. Offsets 0 .. head - 1 have positions of that number, offsets -tail .. -1 the last ones.
struct TapAxis {
  int extent;
  int positions;
  int head, tail;
  std::int64_t filter, centre;  // centre in [0, extent) where circular
  bool circular;
  bool exact;  // circular with extent positions: every offset modulo extent once, else at two positions (rows: cyclic)
  constexpr int count() const { return head + tail; }
};

// An image in pieces along an axis, each convolved on its own: piece i is read from step i on and its result belongs
// shift further on. What lies at or behind `limit` does not exist.
struct PieceAxis {
  int count = 1, step = 0, shift = 0, limit = 0;
  friend bool operator==(PieceAxis const&, PieceAxis const&) = default;
};
struct Pieces {
  std::array<PieceAxis, 3> axes;  // in the order of the problem's axes; of the plan's in kernels
  constexpr int count() const { return axes[0].count * axes[1].count * axes[2].count; }
  constexpr bool any() const { return axes[2].limit > 0; }
  friend bool operator==(Pieces const&, Pieces const&) = default;
};

// The part of a call that goes through the workspace at once. A unit is a filter with its images: a channel, or a
// channel of one sample where filters are per sample.
struct Chunk {
  Divisor channels;                // of the call
  std::int64_t first_sample = 0;   // of image 0 of unit 0
  int first_image = 0;             // of a unit: pieces of a sample one after the other
  Divisor by_pieces = 1;           // of a sample
  std::int64_t first_channel = 0;  // of unit 0
  int units = 0, images = 1;
  Divisor by_images = 1;
};

// Rows of images, [units, images, rows0, rows1] of the tensor <-> spectra[units, images][row0 pitch + row1][M].
struct ImageRows {
  Transform transform;
  void const* rotation;          // exp(-i pi n / 2M); cyclic rows: exp(-i pi n / M)
  int const* frequencies;        // cyclic rows: of the slots of the transform; else null
  std::int64_t spectrum_points;  // between rows of spectra
  void* spectra;
  std::int64_t image_stride;  // of spectra, elements
  int rows0, rows1, pitch;
  Divisor by_rows, by_rows1;  // rows0 rows1, rows1
  int extent;
  Chunk chunk;
  Pieces pieces;
  Divisor by_inner_pieces, by_last_pieces;  // pieces along the axes 1 and 2, along axis 2
  ConstView from;                           // on the way back: x, read for the shortcut
  View to;                                  // inverse only
  bool adds;                                // to `to`, which is in the type of computation, in place of storing
  Dtype dtype, shortcut_dtype;
  ConstVector shortcut;
};

// Rows of filters, by positions.
struct FilterRows {
  Transform transform;
  void const* rotation;
  int const* frequencies;
  std::int64_t spectrum_points;
  void* spectra;
  std::int64_t unit_stride;
  TapAxis axes[3];
  Divisor by_rows, by_rows1;          // of positions of the outer axes: both, the inner one
  Divisor by_tap_rows, by_tap_rows1;  // of taps
  Chunk chunk;
  ConstView from;
  View to;  // inverse only
  Dtype dtype;
  double scale;  // of every value
};

// Lines of complex numbers in planes. Plane i begins at i / minor major_stride + position(i % minor)
// minor_stride, minor = minor_head + minor_tail; point p of line l lies at p point_stride + l line_stride behind it.
struct ComplexLines {
  Transform transform;
  std::int64_t major_stride, minor_stride;
  std::int64_t point_stride, line_stride;
  int lines;
  Divisor by_tiles;  // blocks for the lines of a plane
  Divisor by_minor;  // planes of a major one, minor_head + minor_tail
  int major;
  int head, tail;  // points [0, head) and the last `tail` hold something before a forward, after an inverse one
  int minor_head, minor_tail, minor_positions;
  bool contiguous;  // point_stride is 1, else line_stride is
  int tiles() const { return (lines + (1 << transform.log2_lines) - 1) >> transform.log2_lines; }
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

// images[units, images] times filters[units] along a causal last axis, which is not transformed: in place.
struct ToeplitzProduct {
  void* images;
  void const* filters;
  std::int64_t image_stride, filter_stride;
  int lines;                             // side by side; point i of all of them at i lines
  int points, taps;                      // taps <= points
  int inner_points = 1, inner_taps = 1;  // of a second causal axis, between points and lines
  int units, images_per_unit;
  void const* twiddles = nullptr;  // of 2^log2_toeplitz_slots points, for the product in blocks
  int log2_columns = 0;            // of a block
  constexpr int padded_taps() const { return (taps + 7) / 8 * 8; }
};
// Of a product in blocks of half as many points.
inline constexpr int log2_toeplitz_slots = 6;
constexpr std::size_t toeplitz_shared_bytes(int points, int taps, int log2_columns, std::size_t real_bytes) {
  return 2 * real_bytes * std::size_t((points + 7) / 8 * 8 + 7 + (taps + 7) / 8 * 8) << log2_columns;
}

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

// A long line of 2^log2_points is 2^first x 2^second points.
struct SplitLengths {
  int first, second;
};
constexpr SplitLengths split_lengths(int log2_points) { return {log2_points / 2, log2_points - log2_points / 2}; }

// One long axis as rows x columns in the order of memory, n = row columns + column: the transform over rows with the
// twiddles that the transform over columns needs behind it.
struct Split {
  Transform transform;
  int log2_columns;
  void const* rotation;  // of the transform over rows
  void const* twiddles;  // a split_twiddles table
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
  block_twiddles,  // exp(-2 pi i t / n) for the power of two n in a length, by pass
  odd_twiddles,    // exp(-2 pi i t j / n) for a length of n points, [t - 1][j], 0 < t < odd
  rotation,        // exp(-i pi t / 2n), t < n
  roots,           // exp(-i pi t / n), t < n
  frequencies,     // of the slots of a transform, integers
  split_twiddles,  // exp(-2 pi i column (4 frequency + 1) / 4n) for a split line of n points, [slot of the
                   // frequency][column]
};
struct Table {
  void* to;
  Length length;
  int log2_radix;
  TableKind kind;
  Precision precision;
};
constexpr int table_entries(Table const& table) {
  int const part = 1 << table.length.log2;
  return table.kind == TableKind::block_twiddles ? part
         : table.kind == TableKind::odd_twiddles ? (table.length.odd - 1) * part
                                                 : table.length.points();
}
struct Tables {
  static constexpr int most = 48;
  Table tables[most];
  int count = 0;
};
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
void multiply_toeplitz(ToeplitzProduct const&, Precision, cudaStream_t);
void multiply_toeplitz_blocks(ToeplitzProduct const&, Precision, cudaStream_t);
std::size_t toeplitz_blocks_shared_bytes(int points, Precision);  // at least
void multiply_toeplitz_pairs(ToeplitzProduct const&, Precision, cudaStream_t);
std::size_t toeplitz_pairs_shared_bytes(ToeplitzProduct const&, Precision);  // for its columns
void gradient_lines(LineGradient const&, Precision, cudaStream_t);

void transform_split(ImageSplit const&, Precision, cudaStream_t);
void restore_split(ImageSplit const&, Precision, cudaStream_t);
void transform_split(FilterSplit const&, Precision, cudaStream_t);
void restore_split(FilterSplit const&, Precision, cudaStream_t);

void transform_causal_filters(CausalFilters const&, Precision compute, Precision stored, cudaStream_t);
void multiply_causal_rows(CausalRows const&, Precision, cudaStream_t);

}  // namespace faltung::long_conv::cuda::transformed
