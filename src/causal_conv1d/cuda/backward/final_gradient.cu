// What d(final_state) adds to dx: the last tokens of each sequence's last run, computed once more with it, so that they
// too are rounded once. For the kernels that leave it out; a thread for each entry of the state.
#include <algorithm>

#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/tensors.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

constexpr int threads = 128;

struct FinalGradient {
  Problem problem;
  BackwardArgs args;
  Cut cut;
};

template <typename Storage>
__global__ __launch_bounds__(threads) void final_gradient_kernel(__grid_constant__ FinalGradient const call) {
  using R = Real<Storage>;
  auto const& p = call.problem;
  auto const& a = call.args;
  auto const& final = a.dfinal_state;
  std::int64_t const items = p.sequences * final.columns * p.channels, step = std::int64_t(gridDim.x) * threads;
  int const before = p.width - 1;
  for (std::int64_t item = std::int64_t(blockIdx.x) * threads + threadIdx.x; item < items; item += step) {
    bool const columns_first = a.dx.strides.time == 1;  // neighbouring threads: tokens, else channels
    std::int64_t const inner = columns_first ? final.columns : p.channels, outer = item / inner,
                       at = item - outer * inner;
    std::int64_t const slow = columns_first ? p.channels : final.columns, n = outer / slow, rest = outer - n * slow;
    std::int64_t const column = columns_first ? at : rest, c = columns_first ? rest : at;
    auto const run = thread_last_run(call.cut, n, final.columns + before);
    std::int64_t const t = run.end - final.columns + column;
    if (t < run.begin) continue;  // it came from the initial state
    R dx = 0;
    for (int d = 0; d <= before && t + d < run.end; ++d) {
      R dz = widen(static_cast<Storage const*>(a.dy.data)[offset(a.dy.strides, run.row, c, t + d)]);
      if (p.activation == Activation::silu) {
        R z = thread_bias<R>(a.bias, p.bias_dtype, c);
        for (int j = 0; j < p.width; ++j)
          z = fma(thread_weight<R>(a.weight, p.weight_dtype, c, j),
                  thread_token<Storage>(a.x, a.initial_state, p.state_dtype, Place{t + d - run.begin, run.state},
                                        run.row, c, t + d, before - j),
                  z);
        dz *= thread_silu_derivative<Storage>(z);
      }
      dx = fma(thread_weight<R>(a.weight, p.weight_dtype, c, before - d), dz, dx);
    }
    dx = add(dx, thread_load<R>(final.data, p.final_state_dtype, offset(final, n, c, column)));
    static_cast<Storage*>(a.dx.data)[offset(a.dx.strides, run.row, c, t)] = narrow<Storage>(dx);
  }
}

}  // namespace

void write_final_gradient(Problem const& p, BackwardArgs const& a, Cut const& cut) {
  auto const items = p.sequences * a.dfinal_state.columns * p.channels;
  if (items == 0) return;
  visit_storage(p.x_dtype, [&]<typename Storage> {
    faltung::cuda::launch<final_gradient_kernel<Storage>>(
        "what the gradient of the final state adds to dx",
        {.grid = dim3(unsigned(std::min<std::int64_t>((items + threads - 1) / threads, 1 << 30))),
         .threads = threads,
         .stream = stream_of(a.runtime)},
        FinalGradient{p, a, cut});
  });
}

}  // namespace faltung::causal_conv1d::cuda
