// d(initial_state): a block computes dz of the first W-1 tokens of one sequence for a tile of channels, then what
// reaches the W-1 places before them.
#include <algorithm>

#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/tensors.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

constexpr int channels = 16, rows = 16, threads = channels * rows;

struct StateGradient {
  Problem problem;
  BackwardArgs args;
  Cut cut;
};

template <typename Storage>
__global__ __launch_bounds__(threads) void state_gradient_kernel(__grid_constant__ StateGradient const call) {
  using R = Real<Storage>;
  extern __shared__ __align__(16) std::byte memory[];
  auto const dz = reinterpret_cast<R*>(memory);  // [width - 1, channels]
  auto const& p = call.problem;
  auto const& a = call.args;
  int const before = p.width - 1, row = threadIdx.x / channels, lane = threadIdx.x % channels;
  std::int64_t const tiles = (p.channels + channels - 1) / channels, items = p.sequences * tiles;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    std::int64_t const n = item / tiles, c = item % tiles * channels + lane;
    auto const run = thread_first_run(call.cut, n, p.width);
    std::int64_t const length = run.end - run.begin;
    int const tokens = int(length < before ? length : before);
    __syncthreads();
    for (int i = row; i < tokens && c < p.channels; i += rows) {
      std::int64_t const t = run.begin + i;
      R value = widen(static_cast<Storage const*>(a.dy.data)[offset(a.dy.strides, run.row, c, t)]);
      if (p.activation == Activation::silu) {
        R z = thread_bias<R>(a.bias, p.bias_dtype, c);
        for (int j = 0; j < p.width; ++j)
          z = fma(thread_weight<R>(a.weight, p.weight_dtype, c, j),
                  thread_token<Storage>(a.x, a.initial_state, p.state_dtype, Place{i, n}, run.row, c, t, before - j),
                  z);
        value *= thread_silu_derivative<Storage>(z);
      }
      dz[i * channels + lane] = value;
    }
    __syncthreads();
    // The final state comes from the same run unless another one follows.
    bool const passes = a.dfinal_state.data && (p.cut != Sequences::labelled || call.cut.edges[n].last == run.end);
    auto const& to = a.dinitial_state;
    for (std::int64_t column = row; column < to.columns && c < p.channels; column += rows) {
      std::int64_t const back = to.columns - column;  // tokens before the run
      R sum = 0;
      for (int i = 0; i < tokens && back <= before; ++i)
        if (back + i <= before)
          sum =
              fma(thread_weight<R>(a.weight, p.weight_dtype, c, int(before - back - i)), dz[i * channels + lane], sum);
      auto const& final = a.dfinal_state;
      if (std::int64_t const at = final.columns - length - back; passes && at >= 0 && back <= before)
        sum = add(sum, thread_load<R>(final.data, p.final_state_dtype, offset(final, n, c, at)));
      thread_store(to.data, p.state_dtype, offset(to, n, c, column), double(sum));
    }
  }
}

}  // namespace

void write_state_gradient(Problem const& p, BackwardArgs const& a, Cut const& cut) {
  auto const items = p.sequences * ((p.channels + channels - 1) / channels);
  if (items == 0 || a.dinitial_state.columns == 0) return;
  visit_storage(p.x_dtype, [&]<typename Storage> {
    faltung::cuda::launch<state_gradient_kernel<Storage>>(
        "gradient of the initial state",
        {.grid = dim3(unsigned(std::min<std::int64_t>(items, 1 << 30))),
         .threads = threads,
         .shared_bytes = (p.width - 1) * channels * sizeof(Real<Storage>),
         .stream = stream_of(a.runtime)},
        StateGradient{p, a, cut});
  });
}

}  // namespace faltung::causal_conv1d::cuda
