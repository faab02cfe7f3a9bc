// One block per channel sums in double; zeros go through the strides of the gradient.
#include <algorithm>

#include "cuda/element.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/reduction.hpp"

namespace faltung::long_conv::cuda {
namespace {

using faltung::cuda::thread_load, faltung::cuda::thread_store;

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1 << 30;

struct ShortcutGradient {
  std::int64_t batch, channels, extents[3];
  ConstView dy, x;
  Dtype x_dtype, shortcut_dtype;
  Vector dshortcut;
};

__global__ __launch_bounds__(threads) void shortcut_gradient_kernel(__grid_constant__ ShortcutGradient const p) {
  __shared__ double sums[threads];
  std::int64_t const points = p.extents[0] * p.extents[1] * p.extents[2];
  for (std::int64_t c = blockIdx.x; c < p.channels; c += gridDim.x) {
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t i = threadIdx.x; i < points; i += threads) {
        std::int64_t const i2 = i % p.extents[2], i1 = i / p.extents[2] % p.extents[1],
                           i0 = i / (p.extents[2] * p.extents[1]);
        auto const at = [&](ConstView const& view) {
          auto const& s = view.strides;
          return thread_load<double>(
              view.data, p.x_dtype,
              b * s.batch + c * s.channel + i0 * s.spatial[0] + i1 * s.spatial[1] + i2 * s.spatial[2]);
        };
        sum += at(p.dy) * at(p.x);
      }
    sums[threadIdx.x] = sum;
    for (int half = threads / 2; half; half /= 2) {
      __syncthreads();
      if (int(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) thread_store(p.dshortcut.data, p.shortcut_dtype, c * p.dshortcut.stride, sums[0]);
    __syncthreads();
  }
}

__global__ __launch_bounds__(threads) void fill_zero_kernel(void* data, Dtype dtype, Strides strides,
                                                            std::int64_t channels, std::int64_t n0, std::int64_t n1,
                                                            std::int64_t n2) {
  std::int64_t const step = std::int64_t(gridDim.x) * threads;
  for (std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x; i < channels * n0 * n1 * n2; i += step)
    thread_store(data, dtype,
                 i / (n0 * n1 * n2) * strides.channel + i / (n1 * n2) % n0 * strides.spatial[0] +
                     i / n2 % n1 * strides.spatial[1] + i % n2 * strides.spatial[2],
                 0.0);
}

void fill(void* data, Dtype dtype, Strides const& strides, std::int64_t channels, std::array<std::int64_t, 3> const& n,
          cudaStream_t stream) {
  auto const blocks = std::min((channels * n[0] * n[1] * n[2] + threads - 1) / threads, most_blocks);
  faltung::cuda::launch<fill_zero_kernel>("fill with zeros",
                                          {.grid = dim3(unsigned(blocks)), .threads = threads, .stream = stream}, data,
                                          dtype, strides, channels, n[0], n[1], n[2]);
}

}  // namespace

void shortcut_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  ShortcutGradient const arguments{.batch = p.batch,
                                   .channels = p.channels,
                                   .extents = {p.axes[0].extent, p.axes[1].extent, p.axes[2].extent},
                                   .dy = a.dy,
                                   .x = a.x,
                                   .x_dtype = p.x_dtype,
                                   .shortcut_dtype = p.shortcut_dtype,
                                   .dshortcut = a.dshortcut};
  faltung::cuda::launch<shortcut_gradient_kernel>(
      "gradient of the shortcut",
      {.grid = dim3(unsigned(std::min(p.channels, most_blocks))), .threads = threads, .stream = stream}, arguments);
}

void fill_zero(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  if (a.dk.data && p.sharing == FilterSharing::shared)
    fill(a.dk.data, p.k_dtype, a.dk.strides, p.channels, {p.axes[0].filter, p.axes[1].filter, p.axes[2].filter},
         stream);
  if (a.dshortcut.data)
    fill(a.dshortcut.data, p.shortcut_dtype, {.channel = a.dshortcut.stride}, p.channels, {1, 1, 1}, stream);
}

}  // namespace faltung::long_conv::cuda
