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
  for (std::int64_t m0 = threadIdx.x / 32; m0 < rows.filter; m0 += blockDim.x / 32) {
    std::int64_t d = m0 - rows.centre;
    if (rows.circular && d < 0) d += rows.extent;
    bool const meets = rows.circular || (d >= rows.low && d <= rows.high);
    int const lane = threadIdx.x % 32;
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
