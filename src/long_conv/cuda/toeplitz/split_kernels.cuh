// The kernels of fp32, and of 16-bit images with fp32 filters: y or dx of one channel and eight images per block, dk of
// one filter per block.
#pragma once
#include "long_conv/cuda/toeplitz/split.cuh"
#include "long_conv/cuda/toeplitz/store_gradient.cuh"

namespace faltung::long_conv::cuda::toeplitz {

template <typename X, typename K>
struct SplitForwardArgs {
  Shape shape;
  Tensor<X const*> x;
  Tensor<K const*> k;
  Shortcut shortcut;
  Tensor<X*> y;
  bool is_overlapped = false;  // by the kernel after it, which shares nothing with it but inputs
};

template <typename X, typename K>
struct SplitGradientArgs {
  Shape shape;
  Tensor<X const*> dy, x;
  Tensor<K*> dk;
  bool overlaps = false;  // the kernel before it
};

template <int tiles, typename X, typename K>
__global__ __launch_bounds__(threads<tiles>, tiles == 1 ? 6 : 1) void split_forward_kernel(
    __grid_constant__ SplitForwardArgs<X, K> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Magnitudes of_images, of_filter;
  Shape const& shape = p.shape;
  Layout const layout(shape, tiles);
  __half* const start = reinterpret_cast<__half*>(shared);
  __half* const x = start + rows_above * layout.row;
  __half* const filter = start + 2 * layout.operand;
  block_stage_margins<__half, tiles>(start, shape, layout);
  block_stage_margins<__half, tiles>(start + layout.operand, shape, layout);
  grid_wait_for_predecessor();
  if (p.is_overlapped) grid_release_successor();  // not before: it may read what this one may

  std::int64_t const per_filter = shape.images_per_filter;
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x)
    for (std::int64_t b = blockIdx.y * per_filter; b < shape.batch; b += gridDim.y * per_filter) {
      int const count = int(min(per_filter, shape.batch - b));
      block_stage_split_images<tiles>(x, of_images, p.x, shape, layout, b, count, c);
      int const filter_exponent = block_stage_split_filter<tiles>(
          filter, of_filter, p.k.data + b * p.k.batch + c * p.k.channel, p.k.row, p.k.column, shape, layout);
      auto const exponent = [&](int image) { return split_exponent(of_images[image]); };
      __syncthreads();
      for (int row = thread_warp() * rows_per_warp; row < shape.rows.extent;
           row += threads<tiles> / 32 * rows_per_warp) {
        float sums[rows_per_warp][tiles][4] = {};
        warp_split_product<tiles>(sums, x, filter, shape, layout, row);
        warp_store_split_rows<tiles>(sums, p.x, p.y, p.shortcut, shape, b, count, c, row,
                                     [&](int image) { return -exponent(image) - filter_exponent; });
      }
      __syncthreads();
    }
}

template <int tiles, typename X, typename K>
__global__ __launch_bounds__(threads<tiles>, tiles == 1 ? 5 : 1) void split_gradient_kernel(
    __grid_constant__ SplitGradientArgs<X, K> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Magnitudes of_dy, of_x;
  constexpr int lags = 2, warps = threads<tiles> / 32;
  Shape const& shape = p.shape;
  Layout const layout(shape, tiles);
  __half* const start = reinterpret_cast<__half*>(shared);
  __half* const dy = start + rows_above * layout.row;
  __half* const x = dy + 2 * layout.operand;
  float* const gradient = reinterpret_cast<float*>(start + 4 * layout.operand);
#pragma unroll 1
  for (int plane = 0; plane < 4; ++plane)
    block_stage_margins<__half, tiles>(start + plane * layout.operand, shape, layout);
  if (!p.overlaps) grid_wait_for_predecessor();

  int const lag_groups = (shape.row_lags() + lags - 1) / lags;
  bool const per_sample = shape.images_per_filter == 1;
  std::int64_t const samples = per_sample ? shape.batch : 1, images_in_all = per_sample ? 1 : shape.batch;
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x)
    for (std::int64_t sample = blockIdx.y; sample < samples; sample += gridDim.y) {
      for (std::int64_t first = 0; first < images_in_all; first += images) {
        std::int64_t const b = sample + first;
        int const count = int(min(std::int64_t(images), images_in_all - first));
        int const dy_exponent = block_stage_split_group<tiles>(dy, of_dy, p.dy, shape, layout, b, count, c),
                  x_exponent = block_stage_split_group<tiles>(x, of_x, p.x, shape, layout, b, count, c);
        __syncthreads();
        for (int group = thread_warp(); group < lag_groups; group += warps)
          warp_split_gradient<tiles, lags>(gradient, dy, x, shape, layout, shape.rows.low + group * lags, first == 0,
                                           -dy_exponent - x_exponent);
        __syncthreads();
      }
      block_store_filter_gradient(p.dk.data + sample * p.dk.batch + c * p.dk.channel, p.dk,
                                  gradient + layout.filter_row / 2, layout.filter_row, shape);
      __syncthreads();
    }
  if (p.overlaps) grid_wait_for_predecessor();  // what follows may count on both
}

}  // namespace faltung::long_conv::cuda::toeplitz
