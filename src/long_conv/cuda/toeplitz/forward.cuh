// y of one channel and eight images per block.
#pragma once
#include "long_conv/cuda/toeplitz/product.cuh"

namespace faltung::long_conv::cuda::toeplitz {

template <typename Element, int tiles, int pairs>
__global__ __launch_bounds__(threads) void forward_kernel(__grid_constant__ ForwardKernelArgs<Element> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  Shape const& shape = p.shape;
  Layout const layout(shape, tiles);
  Element* const zeros = reinterpret_cast<Element*>(shared);
  Element* const x = zeros + zero_page;
  Element* const filter = x + layout.operand;
  if (threadIdx.x < zero_page) zeros[threadIdx.x] = Element(0.f);

  std::int64_t const groups = (shape.batch + shape.images_per_filter - 1) / shape.images_per_filter;
  for (std::int64_t item = blockIdx.x; item < groups * shape.channels; item += gridDim.x) {
    std::int64_t const c = item % shape.channels, b = item / shape.channels * shape.images_per_filter;
    int const count = int(min(std::int64_t(shape.images_per_filter), shape.batch - b));
    block_stage_images(x, p.x, shape, layout, b, count, c);
    block_stage_filter(filter, p.k.data + b * p.k.batch + c * p.k.channel, p.k.row, p.k.column, shape, layout);
    thread_wait_for_copies();
    __syncthreads();
    for (int row = threadIdx.x / 32 * 2 * pairs; row < shape.rows.extent; row += threads / 32 * 2 * pairs) {
      float sums[pairs][tiles][2][4] = {};
      warp_toeplitz_product<Element, tiles, pairs>(sums, x, zeros, filter, shape, layout, row);
      warp_store_rows<Element, tiles, pairs>(sums, x, p.y, p.shortcut, shape, layout, b, count, c, row);
    }
    __syncthreads();
  }
}

}  // namespace faltung::long_conv::cuda::toeplitz
