// dx and dk of one filter per block: its images pass by eights; dx leaves at once, dk is summed in shared memory in the
// order of the batch.
#pragma once
#include "long_conv/cuda/toeplitz/filter_gradient.cuh"

namespace faltung::long_conv::cuda::toeplitz {

// Row lags per warp and pass.
template <int tiles>
inline constexpr int gradient_lags = 4 / tiles;

// Six blocks per multiprocessor hold 768 channels in one wave on 132 of them.
template <int tiles, int pairs>
inline constexpr int backward_blocks = tiles == 1 && pairs == 2 ? 6 : 3;

template <typename Element, int tiles, int pairs>
__global__ __launch_bounds__(threads, backward_blocks<tiles, pairs>) void backward_kernel(
    __grid_constant__ BackwardKernelArgs<Element> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int lags = gradient_lags<tiles>, warps = threads / 32;
  Shape const& shape = p.shape;
  Shape const transposed = shape.transposed();
  Layout const layout(shape, tiles);
  Element* const zeros = reinterpret_cast<Element*>(shared);
  Element* const dy = zeros + zero_page;
  Element* const x = dy + layout.operand;
  Element* const filter = x + layout.operand;
  float* const gradient = reinterpret_cast<float*>(filter + layout.filter);
  if (threadIdx.x < zero_page) zeros[threadIdx.x] = Element(0.f);

  int const row_groups = p.dx.data ? (shape.rows.extent + 2 * pairs - 1) / (2 * pairs) : 0;
  int const lag_groups = p.dk.data ? (shape.row_lags() + lags - 1) / lags : 0;
  std::int64_t const samples = shape.images_per_filter == 1 ? shape.batch : 1;  // with filters of their own
  std::int64_t const images_in_all = shape.images_per_filter == 1 ? 1 : shape.batch;
  for (std::int64_t item = blockIdx.x; item < samples * shape.channels; item += gridDim.x) {
    std::int64_t const c = item % shape.channels, sample = item / shape.channels;
    if (p.dx.data)
      block_stage_filter(filter, p.k.data + sample * p.k.batch + c * p.k.channel, p.k.row, p.k.column, transposed,
                         layout);
    for (std::int64_t first = 0; first < images_in_all; first += images) {
      std::int64_t const b = sample + first;
      int const count = int(min(std::int64_t(images), images_in_all - first));
      block_stage_images(dy, p.dy, shape, layout, b, count, c);
      if (p.dk.data) block_stage_images(x, p.x, shape, layout, b, count, c);
      thread_wait_for_copies();
      __syncthreads();
      for (int work = threadIdx.x / 32; work < row_groups + lag_groups; work += warps) {
        if (work < row_groups) {
          float sums[pairs][tiles][2][4] = {};
          warp_toeplitz_product<Element, tiles, pairs>(sums, dy, zeros, filter, transposed, layout, work * 2 * pairs);
          warp_store_rows<Element, tiles, pairs>(sums, dy, p.dx, p.shortcut, shape, layout, b, count, c,
                                                 work * 2 * pairs);
        } else {
          warp_filter_gradient<Element, tiles, lags>(gradient, dy, x, zeros, shape, layout,
                                                     shape.rows.low + (work - row_groups) * lags, first == 0);
        }
      }
      __syncthreads();
    }
    if (p.dk.data)
      block_store_filter_gradient(p.dk.data + sample * p.dk.batch + c * p.dk.channel, p.dk, gradient, shape, layout);
    __syncthreads();
  }
}

}  // namespace faltung::long_conv::cuda::toeplitz
