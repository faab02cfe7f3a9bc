// From sums by lags to taps.
#pragma once
#include "cuda/mma.cuh"
#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::toeplitz {

using namespace faltung::cuda;

// dk[c] from the sums by lags, `gradient` being that of row lag rows.low and column lag 0; taps without a lag are
// zeros. A circular axis has two lags per tap.
template <typename Element>
__device__ __forceinline__ void block_store_filter_gradient(Element* dk, Tensor<Element*> const& strides,
                                                            float const* gradient, int row_stride, Shape const& shape) {
  LagAxis const &rows = shape.rows, &columns = shape.columns;
  auto const sum_of_row = [&](std::int64_t d, std::int64_t l) {
    float const* const row = gradient + (d - rows.low) * row_stride;
    if (!columns.circular) return l >= columns.low && l <= columns.high ? row[l] : 0.f;
    l += l < 0 ? columns.extent : 0;
    return l == 0 ? row[0] : row[l] + row[l - columns.extent];
  };
  int const lane = thread_lane(), warp = thread_warp(), warps = blockDim.x / 32;
  constexpr int most = 1 << 30;
  if (!rows.circular && !columns.circular && rows.filter < most && columns.filter < most) {
    // The usual case in 32 bits: without a lag there is no centre to speak of.
    bool const empty = rows.low > rows.high || columns.low > columns.high;
    int const row_centre = empty ? 0 : int(rows.centre), column_centre = empty ? 0 : int(columns.centre);
    int const row_filter = int(rows.filter), column_filter = int(columns.filter);
    unsigned const first_row = rows.low + row_centre, first_column = columns.low + column_centre;
    unsigned const live_rows = empty ? 0 : shape.row_lags(), live_columns = columns.high - columns.low + 1;
    auto const sum = [&](int m0, int m1) {
      unsigned const row = m0 - first_row;
      return row < live_rows && unsigned(m1) - first_column < live_columns
                 ? gradient[int(row) * row_stride + m1 - column_centre]
                 : 0.f;
    };
    if (strides.column == 1 && strides.row == column_filter && std::int64_t(row_filter) * column_filter < most) {
      // Taps in one run; of 16 bits a lane has the two that share a word, whatever the parity of their address.
      constexpr int each = sizeof(Element) == 2 ? 2 : 1;
      int const total = row_filter * column_filter, step = each * blockDim.x;
      int const step_rows = step / column_filter, step_columns = step % column_filter;
      int at = each * int(threadIdx.x) - int(reinterpret_cast<std::uintptr_t>(dk) / sizeof(Element) % each);
      int m0 = at < 0 ? -1 : at / column_filter, m1 = at - m0 * column_filter;
#pragma unroll 2
      for (; at < total; at += step) {
        float const first = sum(m0, m1);
        if constexpr (each == 1) {
          dk[at] = rounded<Element>(first);
        } else {
          bool const wraps = m1 + 1 == column_filter;
          float const second = sum(wraps ? m0 + 1 : m0, wraps ? 0 : m1 + 1);
          if (at >= 0 && at + 1 < total)
            *reinterpret_cast<std::uint32_t*>(dk + at) = pack<Element>(first, second);
          else if (at >= 0)
            dk[at] = rounded<Element>(first);
          else
            dk[at + 1] = rounded<Element>(second);
        }
        m0 += step_rows;
        m1 += step_columns;
        if (m1 >= column_filter) {
          m1 -= column_filter;
          ++m0;
        }
      }
      return;
    }
    for (int m0 = warp; m0 < row_filter; m0 += warps) {
      Element* const to = dk + m0 * strides.row;
#pragma unroll 4
      for (int m1 = lane; m1 < column_filter; m1 += 32) to[m1 * strides.column] = rounded<Element>(sum(m0, m1));
    }
    return;
  }
  for (std::int64_t m0 = warp; m0 < rows.filter; m0 += warps) {
    std::int64_t d = m0 - rows.centre;
    if (rows.circular && d < 0) d += rows.extent;
    bool const meets = rows.circular || (d >= rows.low && d <= rows.high);
    Element* to = dk + m0 * strides.row + lane * strides.column;
    for (std::int64_t m1 = lane, l = lane - columns.centre; m1 < columns.filter;
         m1 += 32, l += 32, to += 32 * strides.column) {
      float value = meets ? sum_of_row(d, l) : 0.f;
      if (rows.circular && d) value += sum_of_row(d - rows.extent, l);
      *to = rounded<Element>(value);
    }
  }
}

// The same where every one of `taps` contiguous rows of as many taps has its lag; `gradient` is the sum of the first.
// A thread has the two taps that share a word, whatever the parity of its address, the second perhaps of the next row.
template <int taps, typename Element>
__device__ __forceinline__ void block_store_whole_gradient(Element* dk, float const* gradient, int row_stride) {
  static_assert(sizeof(Element) == 2 && taps % 2);
  constexpr int words = (taps + 1) / 2;
  int const misaligned = int(reinterpret_cast<std::uintptr_t>(dk) / sizeof(Element) % 2);
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < taps * words; i += blockDim.x) {
    int const row = i / words, first = 2 * int(i % words) + (row + misaligned) % 2;
    if (first >= taps) continue;
    float const* const from = gradient + row * row_stride + first;
    Element* const to = dk + row * taps + first;
    bool const last = first + 1 == taps;
    if (last && row + 1 == taps)
      *to = rounded<Element>(*from);
    else
      *reinterpret_cast<std::uint32_t*>(to) = pack<Element>(from[0], last ? from[row_stride + 1 - taps] : from[1]);
  }
  if (misaligned && threadIdx.x == 0) *dk = rounded<Element>(*gradient);
}

}  // namespace faltung::long_conv::cuda::toeplitz
