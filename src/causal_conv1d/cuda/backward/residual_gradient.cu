// dresidual: dy bit for bit, zero for the tokens of no sequence. For the kernels that leave it out; a block moves a
// tile of 32 tokens.
#include <algorithm>

#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/tensors.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

constexpr int threads = 256, tokens = 32, channels = 128;  // of a tile

struct ResidualGradient {
  Problem problem;
  ConstView dy;
  View dresidual;
  Cut cut;
  std::int64_t time_tiles, channel_tiles;
};

template <typename Storage>
__global__ __launch_bounds__(threads) void residual_gradient_kernel(__grid_constant__ ResidualGradient const call) {
  __shared__ unsigned live;
  auto const& p = call.problem;
  std::int64_t const tiles = p.batch * call.time_tiles * call.channel_tiles;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    std::int64_t const outer = tile / call.channel_tiles, first_c = (tile - outer * call.channel_tiles) * channels,
                       b = outer / call.time_tiles, first_t = (outer - b * call.time_tiles) * tokens;
    if (threadIdx.x < tokens) {
      std::int64_t const t = first_t + threadIdx.x;
      unsigned const bits = __ballot_sync(~0u, t < p.time && thread_place(call.cut, b, t, 0).age >= 0);
      if (threadIdx.x == 0) live = bits;
    }
    __syncthreads();
    unsigned const mine = live;
    bool const along_time = call.dy.strides.time == 1;  // neighbouring threads
    for (int i = threadIdx.x; i < tokens * channels; i += threads) {
      int const token = along_time ? i % tokens : i / channels, channel = along_time ? i / tokens : i % channels;
      std::int64_t const t = first_t + token, c = first_c + channel;
      if (t >= p.time || c >= p.channels) continue;
      std::int64_t const to = offset(call.dresidual.strides, b, c, t);
      if (mine >> token & 1)
        thread_copy(call.dy.data, p.x_dtype, offset(call.dy.strides, b, c, t), call.dresidual.data, p.x_dtype, to);
      else
        static_cast<Storage*>(call.dresidual.data)[to] = narrow<Storage>(Real<Storage>(0));
    }
    __syncthreads();
  }
}

}  // namespace

void write_residual_gradient(Problem const& p, BackwardArgs const& a, Cut const& cut) {
  ResidualGradient const call{.problem = p,
                              .dy = a.dy,
                              .dresidual = a.dresidual,
                              .cut = cut,
                              .time_tiles = (p.time + tokens - 1) / tokens,
                              .channel_tiles = (p.channels + channels - 1) / channels};
  auto const tiles = p.batch * call.time_tiles * call.channel_tiles;
  if (tiles == 0) return;
  visit_storage(p.x_dtype, [&]<typename Storage> {
    faltung::cuda::launch<residual_gradient_kernel<Storage>>(
        "gradient of the residual",
        {.grid = dim3(unsigned(std::min<std::int64_t>(tiles, 1 << 30))),
         .threads = threads,
         .stream = stream_of(a.runtime)},
        call);
  });
}

}  // namespace faltung::causal_conv1d::cuda
