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
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  constexpr int most = 1 << 30;
  if (!rows.circular && !columns.circular && rows.filter < most && columns.filter < most) {
    // The usual case in 32 bits: without a lag there is no centre to speak of.
    bool const empty = rows.low > rows.high || columns.low > columns.high;
    int const row_centre = empty ? 0 : int(rows.centre), column_centre = empty ? 0 : int(columns.centre);
    int const row_filter = int(rows.filter), column_filter = int(columns.filter);
    for (int m0 = warp; m0 < row_filter; m0 += warps) {
      int const d = m0 - row_centre;
      bool const meets = !empty && d >= rows.low && d <= rows.high;
      float const* const from = gradient + (d - rows.low) * row_stride - column_centre;
      Element* to = dk + m0 * strides.row + lane * strides.column;
      constexpr int at_once = 4;
      for (int start = lane; start < column_filter; start += 32 * at_once)
#pragma unroll
        for (int u = 0; u < at_once; ++u, to += 32 * strides.column) {
          int const m1 = start + 32 * u, l = m1 - column_centre;
          if (m1 < column_filter)
            *to = rounded<Element>(meets && l >= columns.low && l <= columns.high ? from[m1] : 0.f);
        }
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

}  // namespace faltung::long_conv::cuda::toeplitz
