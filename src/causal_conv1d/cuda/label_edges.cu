// The first token of the first run and the end of the last run of each row of labels: a block per row.
#include <algorithm>

#include "causal_conv1d/cuda/launch.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

constexpr int threads = 256;

__global__ __launch_bounds__(threads) void label_edges_kernel(Index index, std::int64_t batch, std::int64_t time,
                                                              LabelEdges* edges) {
  __shared__ long long first, last;
  auto const labels = static_cast<std::int32_t const*>(index.data);
  for (std::int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    if (threadIdx.x == 0) first = time, last = 0;
    __syncthreads();
    long long low = time, high = 0;
    for (std::int64_t t = threadIdx.x; t < time; t += threads)
      if (labels[b * index.batch + t * index.stride] >= 0) {
        low = low < t ? low : t;
        high = t + 1;
      }
    atomicMin(&first, low);
    atomicMax(&last, high);
    __syncthreads();
    if (threadIdx.x == 0) edges[b] = {first, last};
    __syncthreads();
  }
}

}  // namespace

std::size_t edges_bytes(Problem const& p) {
  constexpr std::size_t alignment = 256;
  return p.cut == Sequences::labelled ? (p.batch * sizeof(LabelEdges) + alignment - 1) / alignment * alignment : 0;
}

Cut make_cut(Problem const& p, Index const& index, Runtime const& runtime, bool with_states) {
  Cut cut{.kind = p.cut,
          .dtype = p.index_dtype,
          .index = index,
          .time = p.time,
          .sequences = p.sequences,
          .width = p.width,
          .edges = nullptr};
  if (p.cut != Sequences::labelled || !with_states || p.batch == 0) return cut;
  auto const edges = static_cast<LabelEdges*>(runtime.workspace);
  faltung::cuda::launch<label_edges_kernel>("edges of labels",
                                            {.grid = dim3(unsigned(std::min<std::int64_t>(p.batch, 1 << 20))),
                                             .threads = threads,
                                             .stream = stream_of(runtime)},
                                            index, p.batch, p.time, edges);
  cut.edges = edges;
  return cut;
}

}  // namespace faltung::causal_conv1d::cuda
