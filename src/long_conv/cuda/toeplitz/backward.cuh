// dx and dk of one filter per block: its images pass by eights; dx leaves at once, dk is summed in shared memory in the
// order of the batch.
#pragma once
#include "long_conv/cuda/toeplitz/filter_gradient.cuh"
#include "long_conv/cuda/toeplitz/store_gradient.cuh"
#include "long_conv/cuda/toeplitz/whole.cuh"

namespace faltung::long_conv::cuda::toeplitz {

// Row lags per warp and pass.
template <int tiles>
inline constexpr int gradient_lags = tiles == 1 ? 4 : 2;

// Six blocks per multiprocessor hold 768 channels in one wave on 132 of them.
template <int tiles>
inline constexpr int backward_blocks = tiles == 1   ? 6
                                       : tiles == 2 ? 3
                                                    : 1;

template <typename Element, int tiles, bool whole>
__global__ __launch_bounds__(threads<tiles>, backward_blocks<tiles>) void backward_kernel(
    __grid_constant__ BackwardKernelArgs<Element> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int lags = gradient_lags<tiles>, warps = threads<tiles> / 32;
  auto const& shape = shape_of<whole, tiles>(p.shape);
  auto const& dy_tensor = tensor_of<whole, 16 * tiles>(p.dy);
  auto const& x_tensor = tensor_of<whole, 16 * tiles>(p.x);
  auto const& k_tensor = tensor_of<whole, 32 * tiles - 1>(p.k);
  auto const& dx_tensor = tensor_of<whole, 16 * tiles>(p.dx);
  auto const& dk_tensor = tensor_of<whole, 32 * tiles - 1>(p.dk);
  Shape const transposed = shape.transposed();
  Layout const layout(shape, tiles);
  Element* const dy_start = reinterpret_cast<Element*>(shared);
  Element* const dy = dy_start + rows_above * layout.row;
  Element* const filter = dy_start + layout.operand;
  Element* const x_start = filter + (p.dx.data ? layout.filter : 0);
  Element* const x = x_start + rows_above * layout.row;
  float* const gradient = reinterpret_cast<float*>(x_start + layout.operand);
  auto const stage_margins = [&](Element* to) {
    if constexpr (whole)
      block_stage_whole_margins(to, layout);
    else
      block_stage_margins<Element, tiles>(to, shape, layout);
  };
  stage_margins(dy_start);
  if (p.dk.data) stage_margins(x_start);
  grid_wait_for_predecessor();

  int const row_groups = p.dx.data ? (shape.rows.extent + rows_per_warp - 1) / rows_per_warp : 0;
  int const lag_groups = p.dk.data ? (shape.row_lags() + lags - 1) / lags : 0;
  std::int64_t const samples = shape.images_per_filter == 1 ? shape.batch : 1;  // with filters of their own
  std::int64_t const images_in_all = shape.images_per_filter == 1 ? 1 : shape.batch;
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x)
    for (std::int64_t sample = blockIdx.y; sample < samples; sample += gridDim.y) {
      for (std::int64_t first = 0; first < images_in_all; first += images) {
        std::int64_t const b = sample + first;
        int const count = int(min(std::int64_t(images), images_in_all - first));
        auto const stage_images = [&](Element* to, Tensor<Element const*> const& from) {
          if constexpr (whole)
            block_stage_whole_images(to, from, layout, b, count, c);
          else
            block_stage_images<Element, tiles>(to, from, shape, layout, b, count, c);
        };
        stage_images(dy, dy_tensor);
        if (p.dk.data) stage_images(x, x_tensor);
        if (p.dx.data && first == 0) {  // while the images are on their way
          Element const* const k = k_tensor.data + sample * k_tensor.batch + c * k_tensor.channel;
          if constexpr (whole)
            block_stage_whole_filter(filter, k, -1, layout);
          else
            block_stage_filter<Element, tiles>(filter, k, k_tensor.row, k_tensor.column, transposed, layout);
        }
        thread_wait_for_copies();
        __syncthreads();
        for (int work = thread_warp(); work < row_groups + lag_groups; work += warps) {
          if (work < row_groups) {
            float sums[rows_per_warp][tiles][4] = {};
            warp_toeplitz_product<Element, tiles>(sums, dy, filter, transposed, layout, work * rows_per_warp);
            warp_store_rows<Element, tiles>(sums, dy, dx_tensor, p.shortcut, shape, layout, b, count, c,
                                            work * rows_per_warp);
          } else {
            warp_filter_gradient<Element, tiles, lags>(gradient, dy, x, shape, layout,
                                                       shape.rows.low + (work - row_groups) * lags, first == 0);
          }
        }
        __syncthreads();
      }
      if constexpr (whole) {
        constexpr int taps = 32 * tiles - 1;
        if (p.dk.data)
          block_store_whole_gradient<taps>(dk_tensor.data + c * dk_tensor.channel,
                                           gradient + layout.filter_row / 2 - taps / 2, layout.filter_row);
      } else if (p.dk.data)
        block_store_filter_gradient(dk_tensor.data + sample * dk_tensor.batch + c * dk_tensor.channel, dk_tensor,
                                    gradient + layout.filter_row / 2, layout.filter_row, shape);
      __syncthreads();
    }
}

}  // namespace faltung::long_conv::cuda::toeplitz
