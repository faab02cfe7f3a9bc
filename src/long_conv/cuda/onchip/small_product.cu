// y, and dx without dk, of grids of up to 16 x 16 points: a block of four warps per filter, a warp for two images at a
// time.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/onchip/small.cuh"

namespace faltung::long_conv::cuda::onchip {
namespace {

constexpr int blocks_per_multiprocessor = 4;

struct alignas(16) Shared {
  SmallImages images[small_warps];
  SmallSpectrum spectrum;
  SmallFilter filter;
};

// plain: whole rows side by side in memory, no shortcut; plain_taps: is_plain(FilterRows).
template <bool plain, bool plain_taps>
__global__ __launch_bounds__(small_threads, blocks_per_multiprocessor) void small_product_kernel(
    __grid_constant__ Product const p, __grid_constant__ transformed::FilterRows const filter) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
  auto const& grid = p.grid;
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  int const unit = int(blockIdx.x), warp = int(threadIdx.x) / 32,
            stride = images_of_warp * small_warps * int(gridDim.y);
  auto& images = shared.images[warp];
  int first = images_of_warp * (warp + small_warps * int(blockIdx.y));
  SmallRows<plain> rows;
  rows.load(p.from, grid, unit, first);
  block_stage_taps<plain_taps>(shared.filter.taps, filter, unit);
  rows.transform(images);
  __syncthreads();
  if (warp == lone_warp()) warp_transform_filter(shared.spectrum, shared.filter, filter.scale);
  __syncthreads();
  float const shortcut = plain ? 0.f : shortcut_of(p.shortcut, p.shortcut_dtype, grid, unit);
#pragma unroll 1
  for (; first < grid.chunk.images; first += stride) {
    {
      Complex<float> even[N], odd[N];
      thread_transform_column<even_shift>(even, images);
      thread_multiply_column<even_shift>(even, shared.spectrum, p.conjugate);
      thread_transform_column<odd_shift>(odd, images);
      thread_multiply_column<odd_shift>(odd, shared.spectrum, p.conjugate);
      auto* const column = column_of_lane(images);
#pragma unroll
      for (int n = 0; n < N; ++n) column[n * line_stride] = even[n] + odd[n];
    }
    bool const more = first + stride < grid.chunk.images;
    if (more) rows.load(p.from, grid, unit, first + stride);
    warp_restore_rows<plain>(images, p.to, p.shortcut.data ? p.from : ConstView{}, shortcut, grid, unit, first);
    if (more) rows.transform(images);
  }
}

}  // namespace

void multiply_small(Product const& p, transformed::FilterRows const& filter, cudaStream_t stream) {
  bool const plain = !p.shortcut.data && is_plain(p.grid, p.from, N) && is_plain(p.grid, p.to, N);
  // Blocks share the images of few filters; each transforms the filter.
  int const units = p.grid.chunk.units, most = (p.grid.chunk.images - 1) / (images_of_warp * small_warps) + 1;
  int const wanted = (faltung::cuda::multiprocessors() * blocks_per_multiprocessor - 1) / units + 1;
  visit_int<0, 1>(plain, "plain", [&]<int plain_images> {
    visit_int<0, 1>(is_plain(filter), "plain", [&]<int plain_taps> {
      faltung::cuda::launch<small_product_kernel<plain_images, plain_taps>>(
          "cuda.onchip small product",
          {.grid = dim3(unsigned(units), unsigned(std::min({most, wanted, 65535}))),
           .threads = small_threads,
           .shared_bytes = sizeof(Shared),
           .stream = stream,
           .starts_early = true},
          p, filter);
    });
  });
}

}  // namespace faltung::long_conv::cuda::onchip
