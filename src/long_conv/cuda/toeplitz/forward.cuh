// y of one channel and eight images per block.
#pragma once
#include "long_conv/cuda/toeplitz/whole.cuh"

namespace faltung::long_conv::cuda::toeplitz {

template <typename Element, int tiles, bool whole>
__global__ __launch_bounds__(threads<tiles>) void forward_kernel(__grid_constant__ ForwardKernelArgs<Element> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& shape = shape_of<whole, tiles>(p.shape);
  auto const& x_tensor = tensor_of<whole, 16 * tiles>(p.x);
  auto const& k_tensor = tensor_of<whole, 32 * tiles - 1>(p.k);
  auto const& y_tensor = tensor_of<whole, 16 * tiles>(p.y);
  Layout const layout(shape, tiles);
  Element* const images_start = reinterpret_cast<Element*>(shared);
  Element* const x = images_start + rows_above * layout.row;
  Element* const filter = images_start + layout.operand;
  if constexpr (whole)
    block_stage_whole_margins(images_start, layout);
  else
    block_stage_margins<Element, tiles>(images_start, shape, layout);
  grid_wait_for_predecessor();

  std::int64_t const per_filter = shape.images_per_filter;
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x)
    for (std::int64_t b = blockIdx.y * per_filter; b < shape.batch; b += gridDim.y * per_filter) {
      int const count = int(min(per_filter, shape.batch - b));
      Element const* const k = k_tensor.data + b * k_tensor.batch + c * k_tensor.channel;
      if constexpr (whole) {
        block_stage_whole_images(x, x_tensor, layout, b, count, c);
        block_stage_whole_filter(filter, k, 1, layout);
      } else {
        block_stage_images<Element, tiles>(x, x_tensor, shape, layout, b, count, c);
        block_stage_filter<Element, tiles>(filter, k, k_tensor.row, k_tensor.column, shape, layout);
      }
      thread_wait_for_copies();
      __syncthreads();
      for (int row = thread_warp() * rows_per_warp; row < shape.rows.extent;
           row += threads<tiles> / 32 * rows_per_warp) {
        float sums[rows_per_warp][tiles][4] = {};
        warp_toeplitz_product<Element, tiles>(sums, x, filter, shape, layout, row);
        warp_store_rows<Element, tiles>(sums, x, y_tensor, p.shortcut, shape, layout, b, count, c, row);
      }
      __syncthreads();
    }
}

}  // namespace faltung::long_conv::cuda::toeplitz
