// Forward where tokens lie side by side ([B, D, T]): a warp walks along a share of one channel, a lane computes the
// vector of 16 bytes that it loads. The W-1 tokens before it come from the lane below, those of lane 0 from the warp's
// vectors before.
#pragma once
#include "causal_conv1d/cuda/step_marks.cuh"
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int time_forward_threads = 128;
template <bool cuts>
inline constexpr int time_forward_blocks = cuts ? 5 : 6;  // of a multiprocessor

struct TimeForward {
  Problem problem;
  ForwardArgs args;
  Cut cut;
  std::int64_t share;       // tokens
  std::int64_t row_shares;  // shares of a channel
};

template <typename Storage, int Width, bool cuts>
__global__ __launch_bounds__(time_forward_threads, time_forward_blocks<cuts>) void forward_time_kernel(
    __grid_constant__ TimeForward const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, group = 4, all = 32 * n;
  auto const& p = call.problem;
  auto const& a = call.args;
  __shared__ StepBits<all> bits[cuts ? time_forward_threads / 32 : 1];
  int const lane = threadIdx.x % 32;
  std::int64_t const item = std::int64_t(blockIdx.x) * (time_forward_threads / 32) + threadIdx.x / 32;
  std::int64_t const row = item / call.row_shares, b = row / p.channels, c = row - b * p.channels;
  std::int64_t const begin = (item - row * call.row_shares) * call.share;
  std::int64_t const end = begin + call.share < p.time ? begin + call.share : p.time;
  if (b >= p.batch || begin >= end) return;  // whole warps
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();

  int const count = int(end - begin);
  auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
  auto const y = static_cast<Storage*>(a.y.data) + offset(a.y.strides, b, c, begin);
  auto const residual = static_cast<Storage const*>(a.residual.data) + offset(a.residual.strides, b, c, begin);
  auto const load = [&](int t) { return t < count ? *reinterpret_cast<uint4 const*>(x + t) : uint4{}; };
  uint4 next[group];
#pragma unroll
  for (int i = 0; i < group; ++i) next[i] = load(i * all + lane * n);
  float weights[Width], bias = thread_bias<float>(a.bias, p.bias_dtype, c);
#pragma unroll
  for (int j = 0; j < Width; ++j) weights[j] = thread_weight<float>(a.weight, p.weight_dtype, c, j);
  // Of lane 31 as if it had computed the vector before: what lane 0 takes over.
  float carried[before];
  {
    auto const place = thread_place(call.cut, b, begin, before);
#pragma unroll
    for (int k = 0; k < before; ++k)
      carried[k] = thread_token<Storage>(a.x, a.initial_state, p.state_dtype, place, b, c, begin, before - k);
  }

  StepMarker<all, Walk::up> marker(call.cut, b, begin, bits[cuts ? threadIdx.x / 32 : 0]);
  for (int step = 0; step < count; step += group * all) {
    uint4 present[group];
#pragma unroll
    for (int i = 0; i < group; ++i) present[i] = next[i];
#pragma unroll
    for (int i = 0; i < group; ++i) next[i] = load(step + (group + i) * all + lane * n);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      int const start = step + i * all, at = start + lane * n;
      float tokens[before + n], z[n], last[before];
      widen_words<Storage>(present[i], tokens + before);
#pragma unroll
      for (int k = 0; k < before; ++k) {
        last[k] = tokens[n + k];
        float const below = __shfl_up_sync(~0u, last[k], 1);
        tokens[k] = lane ? below : carried[k];
      }
#pragma unroll
      for (int k = 0; k < before; ++k) carried[k] = __shfl_sync(~0u, last[k], 31);
      Ages<n, before> ages;
      if (cuts && start < count && !marker.is_plain(begin + start, before)) {
        marker.warp_mark(begin + start);
        ages = marker.template thread_ages<n, before>();
      }
      bool const young =
          cuts && ages.bits != ages.plain;  // some token is in no run, or a tap of it reaches before its run
      if (at >= count) continue;
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = bias;
      if (young) {
        float windows[n * Width];
        thread_windows<Storage, Width, n>(call.cut, a.x, a.initial_state, p.state_dtype, b, c, begin + at, ages,
                                          windows);
#pragma unroll
        for (int j = 0; j < Width; ++j)
#pragma unroll
          for (int k = 0; k < n; ++k) z[k] = fma(weights[j], windows[k * Width + j], z[k]);
      } else {
#pragma unroll
        for (int j = 0; j < Width; ++j)
#pragma unroll
          for (int k = 0; k < n; ++k) z[k] = fma(weights[j], tokens[j + k], z[k]);
      }
      if (p.activation == Activation::silu)
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = thread_silu<Storage>(z[k]);
      if (a.residual.data) {
        float more[n];
        widen_words<Storage>(*reinterpret_cast<uint4 const*>(residual + at), more);
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = add(z[k], more[k]);
      }
      if (young)
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = ages.of(k) < 0 ? 0.0f : z[k];
      thread_store_words(y + at, narrow_words<Storage, uint4>(z));
    }
  }
}

}  // namespace faltung::causal_conv1d::cuda
