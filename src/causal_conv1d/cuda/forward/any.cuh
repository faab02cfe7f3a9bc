// Forward for any strides, dtypes, width and cut: a thread computes `tokens_per_thread` neighbouring tokens of one
// channel. The bits are those of every other kernel: z starts from bias, one fused multiply-add per tap, oldest first.
#pragma once
#include "causal_conv1d/cuda/tensors.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int any_threads = 256, tokens_per_thread = 8;

// The axis along which neighbouring threads lie.
enum class Fastest { time, channels };

struct AnyForward {
  Problem problem;
  ForwardArgs args;
  Cut cut;
  Fastest fastest;
  std::int64_t groups;  // of tokens in a row
};

// z of the tokens t .. t + 7, whose windows all lie in their run: a window of registers slides over the taps.
template <typename Storage>
__device__ __forceinline__ void thread_convolve(AnyForward const& call, std::int64_t b, std::int64_t c, std::int64_t t,
                                                Real<Storage> (&z)[tokens_per_thread]) {
  constexpr int n = tokens_per_thread;
  int const width = call.problem.width;
  auto const& x = call.args.x;
  auto const from = static_cast<Storage const*>(x.data) + offset(x.strides, b, c, t - (width - 1));
  Real<Storage> window[n];
#pragma unroll
  for (int i = 0; i < n; ++i) window[i] = widen(from[i * x.strides.time]);
  for (int tap = 0; tap < width; tap += n)
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (tap + j >= width) break;
      auto const weight = thread_weight<Real<Storage>>(call.args.weight, call.problem.weight_dtype, c, tap + j);
#pragma unroll
      for (int i = 0; i < n; ++i) z[i] = fma(weight, window[(i + j) % n], z[i]);
      // The oldest makes room for the token that the last window meets next.
      if (tap + j + 1 < width) window[j] = widen(from[(tap + j + n) * x.strides.time]);
    }
}

template <typename Storage>
__global__ __launch_bounds__(any_threads) void forward_any_kernel(__grid_constant__ AnyForward const call) {
  using R = Real<Storage>;
  constexpr int n = tokens_per_thread;
  auto const& p = call.problem;
  auto const& a = call.args;
  std::int64_t const items = p.batch * call.groups * p.channels, step = std::int64_t(gridDim.x) * any_threads;
  for (std::int64_t item = std::int64_t(blockIdx.x) * any_threads + threadIdx.x; item < items; item += step) {
    bool const along_channels = call.fastest == Fastest::channels;
    std::int64_t const inner = along_channels ? p.channels : call.groups, outer = item / inner,
                       at = item - outer * inner;
    std::int64_t const slow = along_channels ? call.groups : p.channels, b = outer / slow, rest = outer - b * slow;
    std::int64_t const c = along_channels ? at : rest, t = (along_channels ? rest : at) * n;
    int const count = int(p.time - t < n ? p.time - t : n), before = p.width - 1;
    R z[n];
    R const bias = thread_bias<R>(a.bias, p.bias_dtype, c);
#pragma unroll
    for (int i = 0; i < n; ++i) z[i] = bias;
    unsigned live = 0;  // bit i: token i is in a run
    if (count == n && thread_place(call.cut, b, t + n - 1, before + n - 1).age >= before + n - 1) {
      thread_convolve<Storage>(call, b, c, t, z);
      live = ~0u;
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        if (i >= count) break;
        auto const place = thread_place(call.cut, b, t + i, before);
        if (place.age < 0) continue;
        live |= 1u << i;
        for (int j = 0; j < p.width; ++j)
          z[i] = fma(thread_weight<R>(a.weight, p.weight_dtype, c, j),
                     thread_token<Storage>(a.x, a.initial_state, p.state_dtype, place, b, c, t + i, before - j), z[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (i >= count) break;
      R y = p.activation == Activation::silu ? thread_silu<Storage>(z[i]) : z[i];
      if (a.residual.data)
        y = add(y, widen(static_cast<Storage const*>(a.residual.data)[offset(a.residual.strides, b, c, t + i)]));
      static_cast<Storage*>(a.y.data)[offset(a.y.strides, b, c, t + i)] = narrow<Storage>(live >> i & 1 ? y : R(0));
    }
  }
}

}  // namespace faltung::causal_conv1d::cuda
