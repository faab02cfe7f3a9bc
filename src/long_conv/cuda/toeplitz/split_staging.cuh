// Images and filters in fp32, or widened to it, to shared memory as two planes of halves under powers of two: an image
// has its own, or, where images are added up, all have that of the largest.
#pragma once
#include "cuda/half.cuh"
#include "long_conv/cuda/toeplitz/product.cuh"
#include "long_conv/cuda/toeplitz/split.hpp"

namespace faltung::long_conv::cuda::toeplitz {

// Brings magnitudes below 2^15: halves then resolve 2^-50 of the largest.
__device__ __forceinline__ int split_exponent(std::uint32_t magnitude) {
  return min(127, max(-126, 14 + 127 - int(magnitude >> 23)));
}

__device__ __forceinline__ std::uint32_t warp_largest(std::uint32_t magnitude) {
#pragma unroll
  for (int other = 16; other; other /= 2) magnitude = max(magnitude, __shfl_xor_sync(~0u, magnitude, other));
  return magnitude;
}

__device__ __forceinline__ void thread_store_split(__half* to, int low_plane, float value) {
  __half const high = __float2half(value);
  *to = high;
  to[low_plane] = __float2half((value - __half2float(high)) * 0x1p11f);
}

// The halves of two values.
__device__ __forceinline__ void thread_split(std::uint32_t& high, std::uint32_t& low, float first, float second) {
  high = half_pair(first, second);
  float2 const rounded = __half22float2(reinterpret_cast<__half2 const&>(high));
  low = half_pair((first - rounded.x) * 0x1p11f, (second - rounded.y) * 0x1p11f);
}

template <typename X>
__device__ __forceinline__ float as_float(X value) {
  if constexpr (std::is_same_v<X, float>)
    return value;
  else
    return widened(value);
}

// visit(row, column, value) for the points of an image of 16 `tiles` columns; zeros beyond the grid.
template <int tiles, typename X, typename Visit>
__device__ __forceinline__ void warp_visit_image(Tensor<X const*> const& x, Shape const& shape, std::int64_t b,
                                                 std::int64_t c, bool present, Visit const& visit) {
  constexpr int row_length = 16 * tiles, row_step = 32 / row_length;
  int const lane = thread_lane(), column = lane % row_length;
  bool const inside = present && column < shape.columns.extent;
  X const* at = x.data + b * x.batch + c * x.channel + column * x.column + lane / row_length * x.row;
#pragma unroll 8
  for (int row = lane / row_length; row < shape.rows.extent; row += row_step, at += row_step * x.row)
    visit(row, column, inside ? as_float(*at) : 0.f);
}

// An image in the registers of a warp, so that it is read once: 4 columns a lane at a time, up to 32 rows.
template <int tiles, typename X>
class WarpImage {
 public:
  static constexpr int lanes_per_row = 4 * tiles, row_step = 32 / lanes_per_row, most_rows = 32,
                       count = (tiles == 1 ? 16 : most_rows) / row_step;
  static __device__ __forceinline__ bool takes(Tensor<X const*> const& x, Shape const& shape) {
    return x.vectors && shape.rows.extent <= count * row_step;
  }
  __device__ __forceinline__ void load(Tensor<X const*> const& x, Shape const& shape, std::int64_t b, std::int64_t c,
                                       bool present) {
    int const lane = thread_lane(), column = lane % lanes_per_row * 4, first = lane / lanes_per_row;
    bool const inside = present && column < shape.columns.extent;
    X const* at = x.data + b * x.batch + c * x.channel + first * x.row + column;
#pragma unroll
    for (int i = 0; i < count; ++i, at += row_step * x.row) {
      values_[i] = {};
      if (inside && first + i * row_step < shape.rows.extent) values_[i] = *reinterpret_cast<Four const*>(at);
    }
  }
  __device__ __forceinline__ std::uint32_t magnitude() const {
    std::uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < count; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) most = max(most, __float_as_uint(at(i, e)) & 0x7fffffffu);
    return warp_largest(most);
  }
  __device__ __forceinline__ void store(__half* to, Shape const& shape, Layout const& layout, float scale) const {
    int const lane = thread_lane(), column = lane % lanes_per_row * 4, first = lane / lanes_per_row;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int const row = first + i * row_step;
      if (row >= shape.rows.extent) break;
      uint2 high, low;
      thread_split(high.x, low.x, at(i, 0) * scale, at(i, 1) * scale);
      thread_split(high.y, low.y, at(i, 2) * scale, at(i, 3) * scale);
      __half* const target = to + row * layout.row + column;
      *reinterpret_cast<uint2*>(target) = high;
      *reinterpret_cast<uint2*>(target + layout.operand) = low;
    }
  }

 private:
  struct alignas(4 * sizeof(X)) Four {
    X value[4];
  };
  __device__ __forceinline__ float at(int i, int e) const { return as_float(values_[i].value[e]); }
  Four values_[count];
};

template <int tiles, typename X>
__device__ __forceinline__ std::uint32_t warp_measure_image(Tensor<X const*> const& x, Shape const& shape,
                                                            std::int64_t b, std::int64_t c, bool present) {
  std::uint32_t most = 0;
  warp_visit_image<tiles>(x, shape, b, c, present,
                          [&](int, int, float value) { most = max(most, __float_as_uint(value) & 0x7fffffffu); });
  return warp_largest(most);
}

template <int tiles, typename X>
__device__ __forceinline__ void warp_stage_split_image(__half* to, Tensor<X const*> const& x, Shape const& shape,
                                                       Layout const& layout, std::int64_t b, std::int64_t c,
                                                       bool present, float scale) {
  warp_visit_image<tiles>(x, shape, b, c, present, [&](int row, int column, float value) {
    thread_store_split(to + row * layout.row + column, layout.operand, value * scale);
  });
}

// Images each under their own power of two, their magnitudes to `magnitudes`.
template <int tiles, typename X>
__device__ __forceinline__ void block_stage_split_images(__half* to, Magnitudes& magnitudes, Tensor<X const*> const& x,
                                                         Shape const& shape, Layout const& layout, std::int64_t b,
                                                         int count, std::int64_t c) {
  for (int image = threadIdx.x / 32; image < images; image += threads<tiles> / 32) {
    __half* const target = to + image * layout.image;
    std::uint32_t most;
    if (WarpImage<tiles, X>::takes(x, shape)) {
      WarpImage<tiles, X> values;
      values.load(x, shape, b + image, c, image < count);
      most = values.magnitude();
      values.store(target, shape, layout, power_of_two(split_exponent(most)));
    } else {
      most = warp_measure_image<tiles>(x, shape, b + image, c, image < count);
      warp_stage_split_image<tiles>(target, x, shape, layout, b + image, c, image < count,
                                    power_of_two(split_exponent(most)));
    }
    if (threadIdx.x % 32 == 0) magnitudes[image] = most;
  }
}

__device__ __forceinline__ std::uint32_t largest_of(Magnitudes const& magnitudes, int count) {
  std::uint32_t largest = 0;
  for (int i = 0; i < count; ++i) largest = max(largest, magnitudes[i]);
  return largest;
}

// Images all under the power of two of the largest. Returns its exponent. Contains a barrier.
template <int tiles, typename X>
__device__ __forceinline__ int block_stage_split_group(__half* to, Magnitudes& magnitudes, Tensor<X const*> const& x,
                                                       Shape const& shape, Layout const& layout, std::int64_t b,
                                                       int count, std::int64_t c) {
  constexpr int warps = threads<tiles> / 32, each = images / warps;
  int const warp = threadIdx.x / 32;
  bool const kept = tiles == 1 && WarpImage<tiles, X>::takes(x, shape);  // more does not fit the registers
  WarpImage<tiles, X> values[tiles == 1 ? each : 1];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    int const image = warp + i * warps;
    std::uint32_t most;
    if (kept) {
      values[i % (tiles == 1 ? each : 1)].load(x, shape, b + image, c, image < count);
      most = values[i % (tiles == 1 ? each : 1)].magnitude();
    } else {
      most = warp_measure_image<tiles>(x, shape, b + image, c, image < count);
    }
    if (threadIdx.x % 32 == 0) magnitudes[image] = most;
  }
  __syncthreads();
  int const exponent = split_exponent(largest_of(magnitudes, images));
  float const scale = power_of_two(exponent);
#pragma unroll
  for (int i = 0; i < each; ++i) {
    int const image = warp + i * warps;
    __half* const target = to + image * layout.image;
    if (kept)
      values[i % (tiles == 1 ? each : 1)].store(target, shape, layout, scale);
    else
      warp_stage_split_image<tiles>(target, x, shape, layout, b + image, c, image < count, scale);
  }
  return exponent;
}

// visit(row, position, tap) for the filter by lags, as in block_stage_filter.
template <int tiles, typename K, typename Visit>
__device__ __forceinline__ void block_visit_filter(K const* k, std::int64_t row_stride, std::int64_t column_stride,
                                                   Shape const& shape, Visit const& visit) {
  constexpr int filter_row = 32 * tiles, row_step = threads<tiles> / filter_row;
  int const e = threadIdx.x % filter_row, lags = shape.row_lags();
  std::int64_t const m1 = shape.columns.tap(16 * tiles - 1 - e);
#pragma unroll 8
  for (int r = threadIdx.x / filter_row; r < lags + spare_lags; r += row_step) {
    std::int64_t const m0 = r < lags && m1 >= 0 ? shape.rows.tap(shape.rows.low + r) : -1;
    visit(r, e, m0 >= 0 ? as_float(k[m0 * row_stride + m1 * column_stride]) : 0.f);
  }
}

// Returns the exponent of the filter's power of two. Contains a barrier.
template <int tiles, typename K>
__device__ __forceinline__ int block_stage_split_filter(__half* to, Magnitudes& magnitudes, K const* k,
                                                        std::int64_t row_stride, std::int64_t column_stride,
                                                        Shape const& shape, Layout const& layout) {
  constexpr int filter_row = 32 * tiles, row_step = threads<tiles> / filter_row;
  constexpr int most_kept = (filter_row - 1 + spare_lags + row_step - 1) / row_step;  // of a thread, for square grids
  int const e = threadIdx.x % filter_row, first = threadIdx.x / filter_row, rows = shape.row_lags() + spare_lags;
  auto const store = [&](int r, float tap) {
    thread_store_split(to + r * filter_row + e, layout.filter, tap);
    if (e + 1 < filter_row) thread_store_split(to + layout.filter_copy + r * filter_row + e + 1, layout.filter, tap);
  };
  auto const common_exponent = [&](std::uint32_t most) {
    most = warp_largest(most);
    if (threadIdx.x % 32 == 0) magnitudes[threadIdx.x / 32] = most;
    __syncthreads();
    return split_exponent(largest_of(magnitudes, threads<tiles> / 32));
  };
  std::uint32_t most = 0;
  if (tiles == 1 && !shape.rows.circular && rows <= most_kept * row_step) {  // read once
    LagAxis const& axis = shape.rows;
    std::int64_t const m1 = shape.columns.tap(16 * tiles - 1 - e), step = axis.sign * row_step * row_stride;
    K const* at = k + m1 * column_stride + (axis.centre + axis.sign * (axis.low + first)) * row_stride;
    int const live = m1 >= 0 ? shape.row_lags() : 0;
    float taps[most_kept];
#pragma unroll
    for (int i = 0; i < most_kept; ++i, at += step) taps[i] = first + i * row_step < live ? as_float(*at) : 0.f;
#pragma unroll
    for (int i = 0; i < most_kept; ++i) most = max(most, __float_as_uint(taps[i]) & 0x7fffffffu);
    int const exponent = common_exponent(most);
    float const scale = power_of_two(exponent);
#pragma unroll
    for (int i = 0; i < most_kept; ++i)
      if (int const r = first + i * row_step; r < rows) store(r, taps[i] * scale);
    return exponent;
  }
  block_visit_filter<tiles>(k, row_stride, column_stride, shape,
                            [&](int, int, float tap) { most = max(most, __float_as_uint(tap) & 0x7fffffffu); });
  int const exponent = common_exponent(most);
  float const scale = power_of_two(exponent);
  block_visit_filter<tiles>(k, row_stride, column_stride, shape, [&](int r, int, float tap) { store(r, tap * scale); });
  return exponent;
}

}  // namespace faltung::long_conv::cuda::toeplitz
