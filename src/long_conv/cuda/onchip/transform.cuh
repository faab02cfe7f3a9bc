// Transforms of 64 points by eight neighbouring lanes, eight points each: radix 8, an exchange through shared memory in
// place, radix 8. At the frequencies k + shift / 4,
//
//   X[k1 + 8 k2] = sum over p of w8^(p k2) w64^(p (k1 + shift / 4)) sum over q of w32^(q shift) w8^(q k1) x[p + 8 q]
//
// so a shift costs constants only. A lane holds the points p + 8 q of its place p, then the slots k1 + 8 k2 of its
// place k1. Spectra stay in the order in which this leaves them.
#pragma once
#include "cuda/mma.cuh"
#include "long_conv/cuda/onchip/launch.hpp"
#include "long_conv/cuda/onchip/roots.hpp"

namespace faltung::long_conv::cuda::onchip {

using transformed::conjugate;
using transformed::converted;
using transformed::Sense;
using transformed::transform_8;

// Frequencies of rows, and of columns: even and odd ones of 128.
inline constexpr int even_shift = 0, row_shift = 1, odd_shift = 2;

// Rows r and r + 32 of a slot, so that either axis is read without bank conflicts: eight rows, or slots, of a transform
// lie in different banks, and half a warp works on rows r and r + 32, or on slots whose groups are four apart.
struct alignas(16) Cell {
  Complex<float> half[2];
};
struct Cells {
  static constexpr int slot = 1, group = 9, row = 71, row_block = 569;  // odd, and 4 group is 4 modulo 8
  static constexpr int count = 7 * row + 3 * row_block + 7 * group + 8;
  Cell cells[count];

  __device__ Cell* of_row(int r) { return cells + r % 8 * row + r / 8 % 4 * row_block; }
  __device__ Cell* of_slot(int k1, int k2) { return cells + k1 * group + k2; }
};

// Factors between the two passes, sixteen bytes of a lane side by side.
template <typename Real>
struct alignas(16) Twiddles {
  static constexpr int side = 16 / sizeof(Complex<Real>);
  Complex<Real> values[3][8 / side][8][side];  // [shift][k1 / side][place][k1 % side]

  __device__ void block_make() {
    for (int i = threadIdx.x; i < 3 * 64; i += blockDim.x) {
      int const shift = i / 64, k1 = i % 8, place = i / 8 % 8;
      values[shift][k1 / side][place][k1 % side] = roots<Real>.values[place * (4 * k1 + shift)];
    }
  }
  template <int shift>
  __device__ __forceinline__ void load(Complex<Real> (&to)[8], int place) const {
#pragma unroll
    for (int k1 = 0; k1 < 8; ++k1) to[k1] = values[shift][k1 / side][place][k1 % side];
  }
};

template <Sense sense, typename Real>
__device__ __forceinline__ void thread_multiply(Complex<Real> (&v)[8], Complex<Real> const (&by)[8]) {
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = v[k] * (sense == Sense::forward ? by[k] : conjugate(by[k]));
}

// w32^(q shift), q < 8.
template <int shift, Sense sense, typename Real>
__device__ __forceinline__ void thread_shift(Complex<Real> (&v)[8]) {
  [&]<int... q>(std::integer_sequence<int, q...>) {
    ((v[q] = turned<8 * q * shift*(sense == Sense::forward ? 1 : -1)>(v[q])), ...);
  }
  (std::make_integer_sequence<int, 8>{});
}

// The first pass of a real row.
template <typename Real>
__device__ __forceinline__ void thread_shift_row(Complex<Real> (&v)[8], Real const (&x)[8]) {
  [&]<int... q>(std::integer_sequence<int, q...>) {
    ((v[q] = turned<8 * q * row_shift>(Complex<Real>{x[q], Real(0)})), ...);
  }
  (std::make_integer_sequence<int, 8>{});
}

// The real part of what the last pass back leaves, turned back.
template <typename Real>
__device__ __forceinline__ void thread_real_row(Real (&x)[8], Complex<Real> const (&v)[8]) {
  [&]<int... q>(std::integer_sequence<int, q...>) { ((x[q] = turned<-8 * q * row_shift>(v[q]).re), ...); }
  (std::make_integer_sequence<int, 8>{});
}

// ---- rows ----

// The row's line in shared memory: a lane's part of the transform, in place.
struct RowLine {
  Cell* cells;
  int half, place;

  __device__ RowLine(Cells& image, int row, int place) : cells(image.of_row(row)), half(row / 32), place(place) {}
  // Slots k1 + 8 k2; between the passes k2 is a place.
  __device__ __forceinline__ Complex<float>& at(int k1, int k2) const {
    return cells[k1 * Cells::group + k2 * Cells::slot].half[half];
  }
};

// v after the shift. `line`: a RowLine, or a PreciseRow.
template <typename Line, typename Real>
__device__ __forceinline__ void transform_row(Line const& line, Complex<Real> (&v)[8],
                                              Complex<Real> const (&twiddles)[8]) {
  transform_8<Sense::forward>(v);
  thread_multiply<Sense::forward>(v, twiddles);
#pragma unroll
  for (int k1 = 0; k1 < 8; ++k1) line.at(k1, line.place) = v[k1];
  __syncwarp();
#pragma unroll
  for (int p = 0; p < 8; ++p) v[p] = line.at(line.place, p);
  transform_8<Sense::forward>(v);
#pragma unroll
  for (int k2 = 0; k2 < 8; ++k2) line.at(line.place, k2) = v[k2];
}
// v before the shift back.
template <typename Line, typename Real>
__device__ __forceinline__ void restore_row(Line const& line, Complex<Real> (&v)[8],
                                            Complex<Real> const (&twiddles)[8]) {
#pragma unroll
  for (int k2 = 0; k2 < 8; ++k2) v[k2] = line.at(line.place, k2);
  transform_8<Sense::inverse>(v);
#pragma unroll
  for (int p = 0; p < 8; ++p) line.at(line.place, p) = v[p];
  __syncwarp();
#pragma unroll
  for (int k1 = 0; k1 < 8; ++k1) v[k1] = line.at(k1, line.place);
  thread_multiply<Sense::inverse>(v, twiddles);
  transform_8<Sense::inverse>(v);
}

// Rows of a warp's turn, two by half a warp.
__device__ __forceinline__ int row_of_lane(int turn, int lane) { return 2 * turn + lane / 16 + lane / 8 % 2 * 32; }

// ---- columns ----

// Of sixteen turns of a warp over 64 slots: the lane's slot, and its place among its eight lanes.
struct ColumnPlace {
  int k1, k2, place;
  __device__ ColumnPlace(int turn, int lane)
      : k1(turn % 4 + lane / 8 % 2 * 4), k2(turn / 4 * 2 + lane / 16), place(lane % 8) {}
};

// A column of 64 rows, rows of the lane's place first.
struct ColumnLine {
  Cell* cells;
  int place;

  __device__ ColumnLine(Cells& image, ColumnPlace const& at) : cells(image.of_slot(at.k1, at.k2)), place(at.place) {}

  // Rows place + 8 q: the halves of a lane's own four cells.
  __device__ __forceinline__ void load(Complex<float> (&v)[8]) const {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      Cell const cell = own(q);
      v[q] = cell.half[0];
      v[q + 4] = cell.half[1];
    }
  }
  __device__ __forceinline__ void store(Complex<float> const (&v)[8]) const {
#pragma unroll
    for (int q = 0; q < 4; ++q) own(q) = {v[q], v[q + 4]};
  }
  // What the lane of place p keeps for this one.
  __device__ __forceinline__ Complex<float>& other(int p) const {
    return cells[p * Cells::row + place % 4 * Cells::row_block].half[place / 4];
  }

 private:
  __device__ __forceinline__ Cell& own(int q) const { return cells[place * Cells::row + q * Cells::row_block]; }
};

// v after the first pass; both ways end with what the lane alone reads and writes. `line`: a ColumnLine, or a
// PreciseColumn.
template <typename Line, typename Real>
__device__ __forceinline__ void exchange_forward(Line const& line, Complex<Real> (&v)[8]) {
  line.store(v);
  __syncwarp();
#pragma unroll
  for (int p = 0; p < 8; ++p) v[p] = line.other(p);
}
template <typename Line, typename Real>
__device__ __forceinline__ void exchange_inverse(Line const& line, Complex<Real> (&v)[8]) {
#pragma unroll
  for (int p = 0; p < 8; ++p) line.other(p) = v[p];
  __syncwarp();
  line.load(v);
}

// Sixteen bytes of a filter's spectrum: slots k1 + 8 (2 i) and k1 + 8 (2 i + 1) of a lane.
__device__ __forceinline__ int spectrum_place(int odd, int turn, int i, int lane) {
  return ((odd * 16 + turn) * 4 + i) * 32 + lane;
}
__device__ __forceinline__ void thread_load_spectrum(Complex<float> (&to)[8], Cell const* spectrum, int odd, int turn,
                                                     int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float4 const value = reinterpret_cast<float4 const*>(spectrum)[spectrum_place(odd, turn, i, lane)];
    to[2 * i] = {value.x, value.y};
    to[2 * i + 1] = {value.z, value.w};
  }
}

// ---- filters and images ----

// The offset of a position of 2 extent, and whether the tap there, offset + centre, exists and meets input.
template <int extent = points>
__device__ __forceinline__ int offset_of(int position) {
  return position < extent ? position : position - 2 * extent;
}
__device__ __forceinline__ bool is_met(TapAxis const& axis, int offset) {
  return abs(offset) < axis.extent && unsigned(offset + int(axis.centre)) < unsigned(axis.filter);
}

// A plain image on its way: rows of four lanes' groups in different banks.
struct StagedImage {
  static constexpr int stride = points + 8, gap = 16;
  float values[points * stride + gap];

  __device__ __forceinline__ float* of_row(int row) { return values + row * stride + row / 32 * gap; }
};

// The rows of a warp's `turns`, which it alone reads; complete after thread_wait_for_copies().
template <int warps>
__device__ __forceinline__ void warp_stage_rows(StagedImage& to, float const* image) {
  int const lane = int(threadIdx.x) % 32, column = lane % 16 * 4;
#pragma unroll
  for (int turn = int(threadIdx.x) / 32; turn < 16; turn += warps)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const row = 2 * turn + lane / 16 + 32 * half;
      faltung::cuda::thread_copy_async(to.of_row(row) + column, image + row * points + column);
    }
}

// Points place + 8 q of a row of a grid; what lies outside is zero.
__device__ __forceinline__ void thread_load_row(float (&to)[8], float const* image, Strides const& strides,
                                                Grid const& grid, int row, int place) {
  std::int64_t const stride = strides.spatial[2];
  float const* const from = image + row * strides.spatial[1] + place * stride;
  bool const inside = row < grid.rows;
#pragma unroll
  for (int q = 0; q < 8; ++q) to[q] = inside && place + 8 * q < grid.columns ? from[8 * q * stride] : 0.f;
}
__device__ __forceinline__ void thread_load_plain_row(float (&to)[8], float const* image, int row, int place) {
#pragma unroll
  for (int q = 0; q < 8; ++q) to[q] = image[row * points + place + 8 * q];
}
__device__ __forceinline__ void thread_load_row(float (&to)[8], StagedImage& image, int row, int place) {
  float const* const from = image.of_row(row) + place;
#pragma unroll
  for (int q = 0; q < 8; ++q) to[q] = from[8 * q];
}

// With shortcut times the image `added`, where there is one.
template <bool plain>
__device__ __forceinline__ void thread_store_row(float const (&x)[8], float* image, Strides const& strides,
                                                 float const* added, Strides const& added_strides, float shortcut,
                                                 Grid const& grid, int row, int place) {
  if constexpr (plain) {
    float* const to = image + row * points + place;
#pragma unroll
    for (int q = 0; q < 8; ++q) to[8 * q] = x[q];
  } else {
    if (row >= grid.rows) return;
    float* const to = image + row * strides.spatial[1] + place * strides.spatial[2];
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      if (place + 8 * q >= grid.columns) continue;
      float value = x[q];
      if (added) value += shortcut * added[row * added_strides.spatial[1] + (place + 8 * q) * added_strides.spatial[2]];
      to[8 * q * strides.spatial[2]] = value;
    }
  }
}

}  // namespace faltung::long_conv::cuda::onchip
