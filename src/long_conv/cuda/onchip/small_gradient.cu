// dk, and dx beside it, of grids of up to 16 x 16 points: a block per filter, a warp for two of its images at a time.
// Each warp sums the products dy conj(x) of its images in shared memory; one warp takes the sum of all of them back.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/onchip/small.cuh"

namespace faltung::long_conv::cuda::onchip {
namespace {

constexpr int threads = small_threads, warps = small_warps, blocks_per_multiprocessor = 3;

struct alignas(16) Shared {
  union {
    SmallImages x[warps];
    Complex<float> rows[2 * N * line_stride];  // of the gradient
  };
  union {
    SmallImages dy[warps];
    SmallTaps taps;  // of the gradient
  };
  SmallSpectrum spectrum;
  union {
    SmallFilter filter;
    SmallSpectrum sums[warps];
  };
};

// The even or odd slots of a column of two images: their sums, and what they add to dx.
template <int shift>
__device__ __forceinline__ void warp_add_column(Complex<float> (&dx)[N], Shared& shared, int warp, bool begins,
                                                bool wants_dx) {
  int const lane = int(threadIdx.x) % 32;
  Complex<float> x[N];
  thread_transform_column<shift>(x, shared.x[warp]);
  thread_transform_column<shift>(dx, shared.dy[warp]);
#pragma unroll
  for (int f = 0; f < N; ++f) {
    x[f] = dx[f] * conjugate(x[f]);
    x[f] = x[f] + Complex<float>{__shfl_xor_sync(~0u, x[f].re, N), __shfl_xor_sync(~0u, x[f].im, N)};
  }
  if (lane < N) {
#pragma unroll
    for (int f = 0; f < N; ++f) {
      auto& sum = shared.sums[warp].values[shift / odd_shift][f][lane];
      sum = begins ? x[f] : sum + x[f];
    }
  }
  if (wants_dx) thread_multiply_column<shift>(dx, shared.spectrum, true);
}

// The sum of all warps, in the place of the first.
__device__ __forceinline__ void block_add_sums(Shared& shared, int warps) {
  for (int i = int(threadIdx.x); i < 2 * N * N; i += threads) {
    auto const at = [&](int w) -> Complex<float>& { return (&shared.sums[w].values[0][0][0])[i]; };
    auto sum = at(0);
    for (int w = 1; w < warps; ++w) sum = sum + at(w);
    at(0) = sum;
  }
}

// Back to taps by positions; lanes are slots of even and of odd frequencies, then rows.
__device__ __forceinline__ void warp_restore_taps(Shared& shared) {
  int const lane = int(threadIdx.x) % 32, slot = lane % N;
  bool const odd = lane >= N;
  constexpr int stride = line_stride;
  Complex<float> v[N];
#pragma unroll
  for (int f = 0; f < N; ++f) v[f] = shared.sums[0].values[odd][f][slot];
  transformed::transform_16<Sense::inverse>(v);
  thread_shift_line_if<odd_shift, Sense::inverse>(odd, v);
  // Rows n are the sum of both, rows n + 16 the difference.
#pragma unroll
  for (int n = 0; n < N; ++n) {
    Complex<float> const other{__shfl_xor_sync(~0u, v[n].re, N), __shfl_xor_sync(~0u, v[n].im, N)};
    shared.rows[(n + odd * N) * stride + slot] = odd ? other - v[n] : v[n] + other;
  }
  __syncwarp();
#pragma unroll
  for (int f = 0; f < N; ++f) v[f] = shared.rows[lane * stride + f];
  transformed::transform_16<Sense::inverse>(v);
  thread_shift_line<row_shift, Sense::inverse>(v);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    shared.taps[lane][n] = v[n].re;
    shared.taps[lane][n + N] = -v[n].im;
  }
}

// plain: whole rows side by side in memory, no shortcut; plain_taps: is_plain(FilterRows).
template <bool plain, bool plain_taps>
__global__ __launch_bounds__(threads,
                             blocks_per_multiprocessor) void small_gradient_kernel(__grid_constant__ Gradient const p,
                                                                                   ConstView const k) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
  auto const& grid = p.grid;
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  int const unit = int(blockIdx.x), warp = int(threadIdx.x) / 32;
  constexpr int stride = images_of_warp * warps;
  auto &x = shared.x[warp], &dy = shared.dy[warp];
  int first = images_of_warp * warp;
  bool const wants_dx = p.dx.data;
  SmallRows<plain> rows_of_x, rows_of_dy;
  rows_of_x.load(p.x, grid, unit, first);
  rows_of_dy.load(p.dy, grid, unit, first);
  if (wants_dx) {
    auto filter = p.filter;
    filter.from = k;
    block_stage_taps<plain_taps>(shared.filter.taps, filter, unit);
  }
  rows_of_x.transform(x);
  rows_of_dy.transform(dy);
  __syncthreads();
  if (wants_dx && warp == lone_warp()) warp_transform_filter(shared.spectrum, shared.filter, p.filter.scale);
  __syncthreads();
  float const shortcut = plain ? 0.f : shortcut_of(p.shortcut, p.shortcut_dtype, grid, unit);
#pragma unroll 1
  for (bool begins = true; first < grid.chunk.images; first += stride, begins = false) {
    Complex<float> even[N], odd[N];
    warp_add_column<even_shift>(even, shared, warp, begins, wants_dx);
    warp_add_column<odd_shift>(odd, shared, warp, begins, wants_dx);
    bool const more = first + stride < grid.chunk.images;
    if (wants_dx) {
      auto* const column = column_of_lane(dy);
#pragma unroll
      for (int n = 0; n < N; ++n) column[n * line_stride] = even[n] + odd[n];
    }
    if (more) rows_of_x.load(p.x, grid, unit, first + stride);
    if (more) rows_of_dy.load(p.dy, grid, unit, first + stride);
    if (wants_dx) warp_restore_rows<plain>(dy, p.dx, p.shortcut.data ? p.dy : ConstView{}, shortcut, grid, unit, first);
    __syncwarp();
    if (more) rows_of_x.transform(x);
    if (more) rows_of_dy.transform(dy);
  }
  __syncthreads();
  int const pairs = (grid.chunk.images - 1) / images_of_warp + 1;
  block_add_sums(shared, pairs < warps ? pairs : warps);
  __syncthreads();
  if (warp == lone_warp()) warp_restore_taps(shared);
  __syncthreads();
  block_store_taps<plain_taps>(shared.taps, p.filter, unit);
}

}  // namespace

void small_gradients(Gradient const& p, ConstView const& k, cudaStream_t stream) {
  bool const plain = !p.shortcut.data && is_plain(p.grid, p.x, N) && is_plain(p.grid, p.dy, N) &&
                     (!p.dx.data || is_plain(p.grid, p.dx, N));
  visit_int<0, 1>(plain, "plain", [&]<int plain_images> {
    visit_int<0, 1>(is_plain(p.filter), "plain", [&]<int plain_taps> {
      faltung::cuda::launch<small_gradient_kernel<plain_images, plain_taps>>(
          "cuda.onchip small gradients",
          {.grid = dim3(unsigned(p.grid.chunk.units)),
           .threads = threads,
           .shared_bytes = sizeof(Shared),
           .stream = stream,
           .starts_early = true},
          p, k);
    });
  });
}

}  // namespace faltung::long_conv::cuda::onchip
