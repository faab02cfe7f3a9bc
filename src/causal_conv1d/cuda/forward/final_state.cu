// final_state: the last tokens of each sequence, bit for bit where the dtypes are equal; a thread per element.
#include <algorithm>

#include "causal_conv1d/cuda/forward/forward.hpp"
#include "causal_conv1d/cuda/tensors.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1 << 30;

struct FinalState {
  Problem problem;
  ConstView x;
  ConstState from;
  State to;
  Cut cut;
};

__global__ __launch_bounds__(threads) void final_state_kernel(__grid_constant__ FinalState const call) {
  auto const& p = call.problem;
  auto const& to = call.to;
  std::int64_t const items = p.sequences * to.columns * p.channels, step = std::int64_t(gridDim.x) * threads;
  for (std::int64_t item = std::int64_t(blockIdx.x) * threads + threadIdx.x; item < items; item += step) {
    // Neighbouring threads: columns where they lie side by side, else channels.
    bool const columns_first = to.column == 1;
    std::int64_t const inner = columns_first ? to.columns : p.channels, outer = item / inner, at = item - outer * inner;
    std::int64_t const slow = columns_first ? p.channels : to.columns, n = outer / slow, rest = outer - n * slow;
    std::int64_t const column = columns_first ? at : rest, c = columns_first ? rest : at;
    auto const run = thread_last_run(call.cut, n, to.columns);
    std::int64_t const token = run.end - to.columns + column, target = offset(to, n, c, column),
                       before = token - run.begin;
    if (token >= run.begin)
      thread_copy(call.x.data, p.x_dtype, offset(call.x.strides, run.row, c, token), to.data, p.final_state_dtype,
                  target);
    else if (run.state >= 0 && call.from.data && before >= 1 - p.width)
      thread_copy(call.from.data, p.state_dtype, offset(call.from, run.state, c, call.from.columns + before), to.data,
                  p.final_state_dtype, target);
    else
      thread_store(to.data, p.final_state_dtype, target, 0.0);
  }
}

}  // namespace

void write_final_state(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  auto const items = p.sequences * a.final_state.columns * p.channels;
  if (items == 0) return;
  faltung::cuda::launch<final_state_kernel>(
      "final state",
      {.grid = dim3(unsigned(std::min((items + threads - 1) / threads, most_blocks))),
       .threads = threads,
       .stream = stream_of(a.runtime)},
      FinalState{p, a.x, a.initial_state, a.final_state, cut});
}

}  // namespace faltung::causal_conv1d::cuda
