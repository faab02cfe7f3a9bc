// Update for any strides, dtypes, width, window and number of tokens: a thread owns one channel of one row, computes
// all its tokens, then moves the columns of its state. Threads behind those of the rows write the zeros of tokens of no
// row.
#pragma once
#include "causal_conv1d/cuda/update/row.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int any_update_threads = 128;

struct AnyUpdate {
  Problem problem;
  UpdateArgs args;
  Cut cut;
};

template <typename Storage>
__global__ __launch_bounds__(any_update_threads) void update_any_kernel(__grid_constant__ AnyUpdate const call) {
  using R = Real<Storage>;
  auto const& p = call.problem;
  auto const& a = call.args;
  bool const packed = p.cut == Sequences::packed;
  std::int64_t const items = (p.sequences + (packed ? p.time : 0)) * p.channels,
                     step = std::int64_t(gridDim.x) * any_update_threads;
  auto const zero = [&](std::int64_t b, std::int64_t c, std::int64_t t) {
    static_cast<Storage*>(a.y.data)[offset(a.y.strides, b, c, t)] = narrow<Storage>(R(0));
  };
  for (std::int64_t item = std::int64_t(blockIdx.x) * any_update_threads + threadIdx.x; item < items; item += step) {
    std::int64_t const n = item / p.channels, c = item - n * p.channels;
    if (n >= p.sequences) {
      if (thread_place(call.cut, 0, n - p.sequences, 0).age < 0) zero(0, c, n - p.sequences);
      continue;
    }
    auto const run = thread_first_run(call.cut, n, 0);
    auto const row = thread_row(p, a, n, run.end - run.begin);
    if (row.source < 0) {
      for (std::int64_t t = run.begin; t < run.end; ++t) zero(run.row, c, t);
      continue;
    }
    R const bias = thread_bias<R>(a.bias, p.bias_dtype, c);
    for (std::int64_t i = 0; i < row.tokens; ++i) {
      R z = bias;
      for (int j = 0; j < p.width; ++j) {
        std::int64_t const token = i - row.before + j;
        R const value =
            token >= 0
                ? widen(static_cast<Storage const*>(a.x.data)[offset(a.x.strides, run.row, c, run.begin + token)])
                : thread_load<R>(a.state.data, p.state_dtype,
                                 offset(a.state, row.source, c, row.history(token + row.before)));
        z = fma(thread_weight<R>(a.weight, p.weight_dtype, c, j), value, z);
      }
      if (p.activation == Activation::silu) z = thread_silu<Storage>(z);
      static_cast<Storage*>(a.y.data)[offset(a.y.strides, run.row, c, run.begin + i)] = narrow<Storage>(z);
    }
    if (row.destination < 0) continue;
    // Columns only move towards older places, so that ascending order reads each before it is overwritten.
    for (std::int64_t column = 0; column < row.columns; ++column) {
      std::int64_t const from = row.next(column), to = offset(a.state, row.destination, c, column);
      if (from < 0) continue;
      if (from < row.columns)
        thread_copy(a.state.data, p.state_dtype, offset(a.state, row.source, c, from), a.state.data, p.state_dtype, to);
      else
        thread_copy(a.x.data, p.x_dtype, offset(a.x.strides, run.row, c, run.begin + from - row.columns), a.state.data,
                    p.state_dtype, to);
    }
  }
}

}  // namespace faltung::causal_conv1d::cuda
