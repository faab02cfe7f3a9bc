// Backward where channels lie side by side ([B, T, D]): a thread owns four channels and walks along the tokens of its
// shares, x and dy of the next `group` tokens in flight while it computes the present ones. dz of a token completes dx
// of the token W-1 before; sums of dweight and dbias leave the registers every `chain` tokens.
#pragma once
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

struct ChannelsBackward {
  Problem problem;
  BackwardArgs args;
  Cut cut;
  ChannelsBackwardPolicy policy;
  float* partial;  // [parts, width + 1, channels], null without dweight and dbias
};

template <typename Storage, int Width, bool cuts>
__global__ __launch_bounds__(channels_backward_threads, channels_backward_blocks) void backward_channels_kernel(
    __grid_constant__ ChannelsBackward const call) {
  constexpr int n = channels_backward_elements, before = Width - 1, group = sizeof(Storage) == 2 ? 8 : 4, chain = 64;
  using Words = std::conditional_t<sizeof(Storage) == 2, uint2, uint4>;
  __shared__ float totals[(Width + 1) * n][channels_backward_threads];
  auto const& p = call.problem;
  auto const& a = call.args;
  auto const& policy = call.policy;
  int const lane = threadIdx.x % 32;
  std::int64_t const block = blockIdx.x / policy.side_by_side, column = blockIdx.x - block * policy.side_by_side;
  std::int64_t const part = block * (channels_backward_threads / policy.lanes) + threadIdx.x / policy.lanes;
  std::int64_t c = (column * policy.lanes + threadIdx.x % policy.lanes) * n;
  bool const active = c < p.channels;  // the others follow, since warps vote, and store nothing
  if (!active) c = p.channels - n;
  if (part >= policy.parts) return;  // whole warps
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  bool const silu = p.activation == Activation::silu, sums = call.partial;
  float weights[Width][n], bias[n], dweight[Width][n], dbias[n];
  thread_load_parameters<Storage, Width, n>(p, a.weight, a.bias, c, weights, bias);
#pragma unroll
  for (int k = 0; k < n; ++k) {
    dbias[k] = 0;
#pragma unroll
    for (int j = 0; j < Width; ++j) dweight[j][k] = 0;
  }
#pragma unroll
  for (int i = 0; i < (Width + 1) * n; ++i) totals[i][threadIdx.x] = 0;
  auto const fold = [&] {
#pragma unroll
    for (int k = 0; k < n; ++k) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        totals[j * n + k][threadIdx.x] += dweight[j][k];
        dweight[j][k] = 0;
      }
      totals[Width * n + k][threadIdx.x] += dbias[k];
      dbias[k] = 0;
    }
  };

  for (std::int64_t share = part; share < policy.shares; share += policy.parts) {
    std::int64_t const b = share / policy.row_shares, begin = (share - b * policy.row_shares) * policy.share;
    std::int64_t const left = p.time - begin, own = left < policy.share ? left : policy.share;
    std::int64_t const steps =
        a.dx.data ? own + before : own;  // dx of the last own tokens waits for W-1 tokens behind them
    auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
    auto const dy = static_cast<Storage const*>(a.dy.data) + offset(a.dy.strides, b, c, begin);
    auto const dx = static_cast<Storage*>(a.dx.data) + offset(a.dx.strides, b, c, begin);
    auto const load = [&](Storage const* from, std::int64_t t, std::int64_t stride) {
      return t < steps && t < left ? *reinterpret_cast<Words const*>(from + t * stride) : Words{};
    };
    Words next_x[group], next_dy[group];
#pragma unroll
    for (int i = 0; i < group; ++i) {
      next_x[i] = load(x, i, a.x.strides.time);
      next_dy[i] = load(dy, i, a.dy.strides.time);
    }
    float history[before][n],
        pending[before][n] = {};  // pending[k]: what has reached dx of the token k before the last one
    auto const place = thread_place(call.cut, b, begin, before);
    thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, place, b, c, begin,
                                            history);
    int age = int(place.age < before ? place.age : before) - 1;  // of the token before
    std::int64_t known = 0;  // tokens before this one are in the run of the last token looked up

    for (std::int64_t t = 0; t < steps; t += group) {
      Words present_x[group], present_dy[group];
#pragma unroll
      for (int i = 0; i < group; ++i) {
        present_x[i] = next_x[i];
        present_dy[i] = next_dy[i];
      }
#pragma unroll
      for (int i = 0; i < group; ++i) {
        next_x[i] = load(x, t + group + i, a.x.strides.time);
        next_dy[i] = load(dy, t + group + i, a.dy.strides.time);
      }
      Place mine{1, -1};
      unsigned starts = 0, live = ~0u;  // bit i: token t + i is the first of a run, is in a run
      if (cuts && t + group > known) {
        if (lane < group && t + lane < left) {
          mine = thread_place(call.cut, b, begin + t + lane, 1);
          known = thread_run_end(call.cut, b, begin + t + lane, mine) - begin;
        }
        starts = __ballot_sync(~0u, mine.age == 0);
        live = __ballot_sync(~0u, mine.age >= 0);
        known = __shfl_sync(~0u, known, group - 1);
      }
#pragma unroll
      for (int i = 0; i < group; ++i) {
        if constexpr (cuts) {
          age = age < before ? age + 1 : before;
          if (starts >> i & 1) {
            age = 0;
            Place const at{0, __shfl_sync(~0u, mine.state, i)};
            thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, at, b, c,
                                                    begin + t + i, history);
          }
        }
        bool const in_run = t + i < left && (!cuts || (live >> i & 1));
        float token[n], dz[n];
        widen_words<Storage>(present_x[i], token);
        widen_words<Storage>(present_dy[i], dz);
        if (silu) {
          float z[n];
#pragma unroll
          for (int k = 0; k < n; ++k) z[k] = bias[k];
#pragma unroll
          for (int j = 0; j < Width; ++j)
#pragma unroll
            for (int k = 0; k < n; ++k) z[k] = fma(weights[j][k], j < before ? history[j % before][k] : token[k], z[k]);
#pragma unroll
          for (int k = 0; k < n; ++k) dz[k] *= thread_silu_derivative<Storage>(z[k]);
        }
        if (!in_run)
#pragma unroll
          for (int k = 0; k < n; ++k) dz[k] = 0;
        if (sums && in_run && t + i < own)
#pragma unroll
          for (int k = 0; k < n; ++k) {
#pragma unroll
            for (int j = 0; j < Width; ++j)
              dweight[j][k] = fma(dz[k], j < before ? history[j % before][k] : token[k], dweight[j][k]);
            dbias[k] += dz[k];
          }
#pragma unroll
        for (int j = 0; j + 1 < before; ++j)
#pragma unroll
          for (int k = 0; k < n; ++k) history[j][k] = history[j + 1][k];
#pragma unroll
        for (int k = 0; k < n; ++k) history[before - 1][k] = token[k];
        if (!a.dx.data) continue;
        float done[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
          // Nothing reaches past the start of the run.
          auto const reaching = [&](int distance) { return !cuts || age >= distance ? dz[k] : 0.0f; };
          done[k] = fma(weights[0][k], reaching(before), pending[before - 1][k]);
#pragma unroll
          for (int d = before - 1; d > 0; --d)
            pending[d][k] = fma(weights[before - d][k], reaching(d), pending[d - 1][k]);
          pending[0][k] = multiply(weights[before][k], dz[k]);
        }
        std::int64_t const to = t + i - before;
        if (to >= 0 && to < own && active)
          *reinterpret_cast<Words*>(dx + to * a.dx.strides.time) = narrow_words<Storage, Words>(done);
      }
      if (sums && (t / group) % (chain / group) == chain / group - 1) fold();
    }
    if (sums) fold();
  }
  if (!sums || !active) return;
#pragma unroll
  for (int j = 0; j <= Width; ++j) {
    float4 const sum{totals[j * n][threadIdx.x], totals[j * n + 1][threadIdx.x], totals[j * n + 2][threadIdx.x],
                     totals[j * n + 3][threadIdx.x]};
    *reinterpret_cast<float4*>(call.partial + (part * (Width + 1) + j) * p.channels + c) = sum;
  }
}

}  // namespace faltung::causal_conv1d::cuda
