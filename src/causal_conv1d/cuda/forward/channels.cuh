// Forward where channels lie side by side ([B, T, D]): a thread owns 16 bytes of channels and walks along the tokens of
// its share, the next `group` of them in flight while it computes the present ones, the last W-1 in registers.
#pragma once
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int channels_forward_threads = 128, channels_forward_blocks = 3;  // blocks of a multiprocessor

struct ChannelsForward {
  Problem problem;
  ForwardArgs args;
  Cut cut;
  int lanes;  // threads side by side along channels, a whole number of warps; the others take other shares
  std::int64_t side_by_side;  // blocks along channels
  std::int64_t share;         // tokens
  std::int64_t row_shares;    // shares of a row
};

template <typename Storage, int Width, bool cuts>
__global__ __launch_bounds__(channels_forward_threads, channels_forward_blocks) void forward_channels_kernel(
    __grid_constant__ ChannelsForward const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, group = 8;
  auto const& p = call.problem;
  auto const& a = call.args;
  int const lane = threadIdx.x % 32;
  std::int64_t const block = blockIdx.x / call.side_by_side, column = blockIdx.x - block * call.side_by_side;
  std::int64_t const share = block * (channels_forward_threads / call.lanes) + threadIdx.x / call.lanes;
  std::int64_t const b = share / call.row_shares, begin = (share - b * call.row_shares) * call.share;
  std::int64_t const end = begin + call.share < p.time ? begin + call.share : p.time;
  std::int64_t c = (column * call.lanes + threadIdx.x % call.lanes) * n;
  bool const active = c < p.channels;  // the others follow, since warps vote, and store nothing
  if (!active) c = p.channels - n;
  if (b >= p.batch || begin >= end) return;  // whole warps
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();

  auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
  auto const y = static_cast<Storage*>(a.y.data) + offset(a.y.strides, b, c, begin);
  auto const residual = a.residual.data
                            ? static_cast<Storage const*>(a.residual.data) + offset(a.residual.strides, b, c, begin)
                            : nullptr;
  std::int64_t const tokens = end - begin;
  uint4 next[group];
#pragma unroll
  for (int i = 0; i < group; ++i) next[i] = i < tokens ? thread_load_vector<Storage>(x, i * a.x.strides.time) : uint4{};
  float weights[Width][n], bias[n], history[before][n];
  thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
  thread_load_bias<Storage, n>(p, a.bias, c, bias);
  auto const place = thread_place(call.cut, b, begin, before);
  thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, place, b, c, begin, history);

  std::int64_t known = 0;  // tokens of the share before this one are in the run of the last token looked up
  for (std::int64_t t = 0; t < tokens; t += group) {
    uint4 present[group];
#pragma unroll
    for (int i = 0; i < group; ++i) present[i] = next[i];
#pragma unroll
    for (int i = 0; i < group; ++i)
      next[i] = t + group + i < tokens ? thread_load_vector<Storage>(x, (t + group + i) * a.x.strides.time) : uint4{};
    Place mine{1, -1};
    unsigned starts = 0, live = ~0u;  // bit i: token t + i is the first of a run, is in a run
    if (cuts && t + group > known) {
      if (lane < group && t + lane < tokens) {
        mine = thread_place(call.cut, b, begin + t + lane, 1);
        known = thread_run_end(call.cut, b, begin + t + lane, mine) - begin;
      }
      starts = __ballot_sync(~0u, mine.age == 0);
      live = __ballot_sync(~0u, mine.age >= 0);
      known = __shfl_sync(~0u, known, group - 1);
    }
#pragma unroll
    for (int i = 0; i < group; ++i) {
      if (cuts && starts >> i & 1) {
        Place const at{0, __shfl_sync(~0u, mine.state, i)};
        thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, at, b, c, begin + t + i,
                                                history);
      }
      float token[n], z[n];
      widen_words<Storage>(present[i], token);
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = bias[k];
#pragma unroll
      for (int j = 0; j < before; ++j)
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = fma(weights[j][k], history[j][k], z[k]);
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = fma(weights[before][k], token[k], z[k]);
#pragma unroll
      for (int j = 0; j + 1 < before; ++j)
#pragma unroll
        for (int k = 0; k < n; ++k) history[j][k] = history[j + 1][k];
#pragma unroll
      for (int k = 0; k < n; ++k) history[before - 1][k] = token[k];
      if (p.activation == Activation::silu)
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = thread_silu<Storage>(z[k]);
      if (t + i < tokens && active) {
        if (residual) {
          widen_words<Storage>(thread_load_vector<Storage>(residual, (t + i) * a.residual.strides.time), token);
#pragma unroll
          for (int k = 0; k < n; ++k) z[k] = add(z[k], token[k]);
        }
        if (cuts && !(live >> i & 1))
#pragma unroll
          for (int k = 0; k < n; ++k) z[k] = 0;
        thread_store_vector<Storage>(y, (t + i) * a.y.strides.time, narrow_words<Storage, uint4>(z));
      }
    }
  }
}

}  // namespace faltung::causal_conv1d::cuda
