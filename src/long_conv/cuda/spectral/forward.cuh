// y of one channel and eight images per turn of a persistent block; dx is the same with the transposed shape. Three
// phases between barriers: rows of x to frequencies, while the next filter is staged; products along the rows; back to
// the grid, while the next filter is transformed.
#pragma once
#include "long_conv/cuda/spectral/product.cuh"

namespace faltung::long_conv::cuda::spectral {

// `plain`: whole aligned rows in and out, no shortcut.
template <int N, bool plain, typename Element>
__global__ __launch_bounds__(Plan<N>::threads, Plan<N>::blocks) void forward_kernel(
    __grid_constant__ ForwardKernelArgs<Element> const p) {
  using P = Plan<N>;
  grid_release_successor();
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared<N>*>(dynamic_shared);
  Shape const& shape = p.shape;
  int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int const image = warp / P::warps_per_image, first_row = warp % P::warps_per_image * 32;
  // Items of at least 25 x 25 points in 16 bits each: 2^31 of them fit no memory.
  int const channels = int(shape.channels), batch = int(shape.batch);
  int const items = channels * ((batch + shape.images_per_filter - 1) / shape.images_per_filter);

  auto const stage_filter = [&](int item) {
    std::int64_t const c = item % channels, b = item / channels * shape.images_per_filter;
    block_stage_filter<N>(shared.filter, shared.filter_maxima, p.k.data + b * p.k.batch + c * p.k.channel, p.k, shape);
  };
  // Returns the exponent of the filter's scale.
  auto const transform_filter = [&] {
    std::uint32_t most = lane < P::warps ? shared.filter_maxima[lane] : 0;
    int const exponent = normalising_exponent(warp_max(most));
    warp_transform_filter<N>(shared.filter_spectrum, shared.filter, shared.filter_constants, exponent);
    return exponent;
  };

  auto const cosines = block_make_cosines<N>(shared.spectrum);
  block_make_input_constants<N>(shared.input_constants, cosines);
  block_make_filter_constants<N>(shared.filter_constants, cosines);
  block_make_output_constants<N>(shared.output_constants, cosines);
  grid_wait_for_predecessor();
  int item = blockIdx.x;
  if (item >= items) return;
  stage_filter(item);
  __syncthreads();
  int filter_exponent = transform_filter();
  __syncthreads();
  for (; item < items; item += int(gridDim.x)) {
    int const c = item % channels, b = item / channels * shape.images_per_filter + image;
    bool const present = image < shape.images_per_filter && b < batch;
    bool const more = item + int(gridDim.x) < items;

    Rows<N> rows;
    warp_load_rows<N, plain>(rows, p.x, shape, b, c, first_row, present);
    std::uint32_t most = warp_magnitude<N>(rows);
    if constexpr (P::warps_per_image > 1) {
      if (lane == 0) shared.image_maxima[warp] = most;
      image_barrier<N>(image);
      most = max(most, shared.image_maxima[warp ^ 1]);
    }
    int const image_exponent = normalising_exponent(most);
    thread_fold<N>(rows, power_of_two(image_exponent));
#pragma unroll 1
    for (int tile = 0; tile < P::slot_tiles; ++tile) {
      Tile re[4] = {}, im[4] = {};
      warp_transform_rows<N>(re, im, rows, shared.input_constants, tile);
      warp_store_spectrum<N>(shared.spectrum, re, im, tile, image, first_row);
    }
    if (more) stage_filter(item + int(gridDim.x));
    __syncthreads();

    if (more)
      thread_prefetch_images(p.x, shape, (item + int(gridDim.x)) % channels, (item + int(gridDim.x)) / channels);
    if (item + 2 * int(gridDim.x) < items)
      thread_prefetch_filter(p.k, shape, (item + 2 * int(gridDim.x)) % channels,
                             (item + 2 * int(gridDim.x)) / channels);
#pragma unroll 1
    for (int pair = warp; pair < N / 2; pair += P::warps)
      warp_multiply_slots<N>(shared.spectrum, shared.filter_spectrum, pair);
    __syncthreads();

    {
      HalfGrid<N> sums = {};
      warp_invert_rows<N>(sums, shared.spectrum, shared.output_constants, image, first_row);
      constexpr int log2_N = N == 64 ? 6 : 5;
      if (present)
        warp_store_grid<N, plain>(sums, p, b, c, first_row,
                                  -image_exponent - filter_exponent - filter_headroom - log2_N);
    }
    if (more) filter_exponent = transform_filter();
    __syncthreads();
  }
}

}  // namespace faltung::long_conv::cuda::spectral
