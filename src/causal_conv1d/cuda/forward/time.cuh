// Forward where tokens lie side by side ([B, D, T]): a warp walks along a share of one channel, a lane computes the
// vector of 16 bytes that it loads. The W-1 tokens before it come from the lanes below, those of the first lanes from
// the step before. With cuts the walk takes no notice of them, while one more warp marks what they touch; the lanes
// then compute those vectors anew.
#pragma once
#include "causal_conv1d/cuda/young_tokens.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int time_forward_channels = 4;  // of a block, a warp for each
template <bool cuts>
inline constexpr int time_forward_threads = 32 * (time_forward_channels + (cuts ? 1 : 0));
template <bool cuts>
inline constexpr int time_forward_blocks = cuts ? 5 : 6;  // of a multiprocessor

struct TimeForward {
  Problem problem;
  ForwardArgs args;
  Cut cut;
  std::int64_t share;           // tokens
  std::int64_t row_shares;      // shares of a channel
  std::int64_t channel_blocks;  // of a row
  bool all_young;               // cut so often that nothing is to be walked along
};

template <typename Storage, int Width, bool cuts>
__global__ __launch_bounds__(time_forward_threads<cuts>, time_forward_blocks<cuts>) void forward_time_kernel(
    __grid_constant__ TimeForward const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, group = 4, all = 32 * n;
  auto const& p = call.problem;
  auto const& a = call.args;
  __shared__ std::conditional_t<cuts, ShareMarks<n>, char> marks;
  int const lane = threadIdx.x % 32;
  std::int64_t const row = blockIdx.x / call.row_shares, b = row / call.channel_blocks;
  std::int64_t const begin = (blockIdx.x - row * call.row_shares) * call.share;
  std::int64_t const end = begin + call.share < p.time ? begin + call.share : p.time;
  int const warp = threadIdx.x / 32;
  std::int64_t c = (row - b * call.channel_blocks) * time_forward_channels + warp;
  int const count = int(end - begin);
  bool const marks_alone = cuts && warp == time_forward_channels, active = !marks_alone && c < p.channels;
  if (!active) c = p.channels - 1;
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  if constexpr (cuts)
    if (marks_alone || call.all_young)
      crew_mark<n, before, 0>(call.all_young ? Crew{warp, time_forward_threads<cuts> / 32} : Crew{0, 1}, call.cut, b,
                              begin, count, marks);
  bool const walks = active && !(cuts && call.all_young);

  auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
  auto const y = static_cast<Storage*>(a.y.data) + offset(a.y.strides, b, c, begin);
  auto const residual = static_cast<Storage const*>(a.residual.data) + offset(a.residual.strides, b, c, begin);
  auto const load = [&](int t) { return t < count ? *reinterpret_cast<uint4 const*>(x + t) : uint4{}; };
  uint4 next[group];
#pragma unroll
  for (int i = 0; i < group; ++i) next[i] = walks ? load(i * all + lane * n) : uint4{};
  float weights[Width], bias = thread_bias<float>(a.bias, p.bias_dtype, c);
#pragma unroll
  for (int j = 0; j < Width; ++j) weights[j] = thread_weight<float>(a.weight, p.weight_dtype, c, j);
  // The vector of the step before: what the first lanes of the next step take over from the last ones.
  float old[n] = {};
#pragma unroll
  for (int k = 0; k < n; ++k)
    if (int const distance = (32 - lane) * n - k; distance <= before)
      old[k] = thread_token<Storage>(a.x, a.initial_state, p.state_dtype, Place{begin, cuts ? -1 : b}, b, c, begin,
                                     distance);
  auto const finish = [&](int at, float(&z)[n], unsigned live) {
    if (p.activation == Activation::silu)
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = thread_silu<Storage>(z[k]);
    if (a.residual.data) {
      float more[n];
      widen_words<Storage>(*reinterpret_cast<uint4 const*>(residual + at), more);
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = add(z[k], more[k]);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) z[k] = live >> k & 1 ? z[k] : 0.0f;
    thread_store_words(y + at, narrow_words<Storage, uint4>(z));
  };

  for (int step = walks ? 0 : count; step < count; step += group * all) {
    uint4 present[group];
#pragma unroll
    for (int i = 0; i < group; ++i) present[i] = next[i];
#pragma unroll
    for (int i = 0; i < group; ++i) next[i] = load(step + (group + i) * all + lane * n);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      int const at = step + i * all + lane * n;
      float tokens[before + n], z[n];
      widen_words<Storage>(present[i], tokens + before);
#pragma unroll
      for (int k = 0; k < before; ++k) {
        int const distance = before - k, lanes = (distance + n - 1) / n, element = lanes * n - distance;
        tokens[k] = __shfl_sync(~0u, lane >= 32 - lanes ? old[element] : tokens[before + element], (lane - lanes) & 31);
      }
#pragma unroll
      for (int k = 0; k < n; ++k) old[k] = tokens[before + k];
      if (at >= count) continue;
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = bias;
#pragma unroll
      for (int j = 0; j < Width; ++j)
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = fma(weights[j], tokens[j + k], z[k]);
      finish(at, z, ~0u);
    }
  }

  if constexpr (cuts) {
    __syncthreads();  // the marks are there, and what the walk has stored may be overwritten
    if (!active) return;
    int const listed = call.all_young ? count / n : marks.count;
    auto const place = [&](int i) { return (call.all_young ? i : int(marks.list[i])) * n; };
    float tokens[before + n], z[n], ahead[before + n];
    auto const ask = [&](int i) {
      if (i >= listed) return;
      widen_words<Storage>(load(place(i)), ahead + before);
      thread_load_before<Storage, before>(x + place(i), begin + place(i), ahead);
    };
    ask(lane);
#pragma unroll 1
    for (int i = lane; i < listed; i += 32) {
      int const at = place(i);
#pragma unroll
      for (int k = 0; k < before + n; ++k) tokens[k] = ahead[k];
      ask(i + 32);
      YoungTokens<Width, n> const young(marks, at);
      thread_convolve_young(young, tokens, weights, bias, call.cut, a.initial_state, p.state_dtype, b, c, begin + at,
                            z);
      finish(at, z, young.live);
    }
  }
}

}  // namespace faltung::causal_conv1d::cuda
