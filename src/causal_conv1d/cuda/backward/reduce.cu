// The second stage of dweight and dbias: partial sums added in double, in an order that depends on their number alone.
#include <algorithm>

#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/tensors.cuh"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

constexpr int channels = 32, shares = 8, threads = channels * shares;

struct Reduction {
  Weight dweight;
  Bias dbias;
  Dtype weight_dtype, bias_dtype;
  int width;
  std::int64_t channels, parts;
  void const* partial;
};

template <typename R>
__global__ __launch_bounds__(threads) void reduce_parameters_kernel(__grid_constant__ Reduction const call) {
  __shared__ double sums[shares][channels];
  int const lane = threadIdx.x % channels, share = threadIdx.x / channels, rows = call.width + 1,
            tap = int(blockIdx.x % rows);
  std::int64_t const c = std::int64_t(blockIdx.x / rows) * channels + lane;
  bool const wanted = tap < call.width ? call.dweight.data : call.dbias.data;
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  if (!wanted) return;
  double sum = 0;
  if (c < call.channels) {
    auto const from = static_cast<R const*>(call.partial) + tap * call.channels + c;
#pragma unroll 8
    for (std::int64_t part = share; part < call.parts; part += shares) sum += double(from[part * rows * call.channels]);
  }
  sums[share][lane] = sum;
  __syncthreads();
  if (share > 0 || c >= call.channels) return;
  for (int i = 1; i < shares; ++i) sum += sums[i][lane];
  if (tap < call.width)
    thread_store(call.dweight.data, call.weight_dtype, c * call.dweight.channel + tap * call.dweight.tap, sum);
  else
    thread_store(call.dbias.data, call.bias_dtype, c * call.dbias.stride, sum);
}

}  // namespace

void reduce_parameters(Problem const& p, BackwardArgs const& a, void const* partial, std::int64_t parts) {
  Reduction const call{.dweight = a.dweight,
                       .dbias = a.dbias,
                       .weight_dtype = p.weight_dtype,
                       .bias_dtype = p.bias_dtype,
                       .width = p.width,
                       .channels = p.channels,
                       .parts = parts,
                       .partial = partial};
  faltung::cuda::LaunchShape const shape{.grid = dim3(unsigned((p.channels + channels - 1) / channels * (p.width + 1))),
                                         .threads = threads,
                                         .stream = stream_of(a.runtime),
                                         .starts_early = true};
  if (p.x_dtype == FALTUNG_F64)
    faltung::cuda::launch<reduce_parameters_kernel<double>>("sums of dweight and dbias", shape, call);
  else
    faltung::cuda::launch<reduce_parameters_kernel<float>>("sums of dweight and dbias", shape, call);
}

}  // namespace faltung::causal_conv1d::cuda
