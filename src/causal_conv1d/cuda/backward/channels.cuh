// Backward where channels lie side by side ([B, T, D]): a thread owns four channels and walks along the tokens of its
// shares, x and dy of the token `group` ahead asked for as soon as the present ones have left their registers. dz of a
// token completes dx of the token W-1 before; sums of dweight and dbias leave the registers every `chain` tokens.
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
__global__ __launch_bounds__(
    channels_backward_threads,
    channels_backward_blocks(sizeof(Storage),
                             cuts)) void backward_channels_kernel(__grid_constant__ ChannelsBackward const call) {
  constexpr int n = channels_elements, before = Width - 1, group = 4, chain = 64;
  using Words = Words<Storage, n>;
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
  // fits_backward_channels() has looked
  int const x_pitch = int(a.x.strides.time), dy_pitch = int(a.dy.strides.time), dx_pitch = int(a.dx.strides.time);
  float weights[Width][n], bias[n], dweight[Width][n] = {}, dbias[n] = {};
  thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
  thread_load_bias<Storage, n>(p, a.bias, c, bias);
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
    int const own = int(p.time - begin < policy.share ? p.time - begin : policy.share);
    // dx of the last own tokens waits for W-1 tokens behind them, as far as there are some.
    int const steps = a.dx.data ? own + before : own, left = int(p.time - begin < steps ? p.time - begin : steps);
    auto x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
    auto dy = static_cast<Storage const*>(a.dy.data) + offset(a.dy.strides, b, c, begin);
    auto dx = static_cast<Storage*>(a.dx.data) + offset(a.dx.strides, b, c, begin) - std::int64_t(before) * dx_pitch;
    auto const row = [](Storage const* from, int t, int pitch) {
      return *reinterpret_cast<Words const*>(from + std::int64_t(t) * pitch);
    };
    Words ahead_x[group], ahead_dy[group];
#pragma unroll
    for (int i = 0; i < group; ++i) {
      ahead_x[i] = i < left ? row(x, i, x_pitch) : Words{};
      ahead_dy[i] = i < left ? row(dy, i, dy_pitch) : Words{};
    }
    float history[before][n];
    float pending[before][n] = {};  // pending[k]: what has reached dx of the token k before the last one
    auto const place = thread_place(call.cut, b, begin, before);
    thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, place, b, c, begin,
                                            history);
    int age = int(place.age < before ? place.age : before) - 1;  // of the token before, at most W-1

    // The group of tokens t ... `plain`: they are own ones, whose windows and W-1 tokens before lie in their run, and
    // so do those that are loaded.
    auto const compute = [&]<bool plain>(int t, unsigned starts, unsigned live, std::int64_t sequence) {
      x += std::int64_t(group) * x_pitch;
      dy += std::int64_t(group) * dy_pitch;
#pragma unroll
      for (int i = 0; i < group; ++i) {
        if constexpr (cuts && !plain) {
          age = age < before ? age + 1 : before;
          if (starts >> i & 1) {
            age = 0;
            Place const at{0, __shfl_sync(~0u, sequence, i)};
            thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, at, b, c,
                                                    begin + t + i, history);
          }
        }
        bool const in_run = plain || (t + i < left && (!cuts || (live >> i & 1)));
        float token[n], dz[n];
        widen_words<Storage>(ahead_x[i], token);
        widen_words<Storage>(ahead_dy[i], dz);
        if (plain || t + group + i < left) {
          ahead_x[i] = row(x, i, x_pitch);
          ahead_dy[i] = row(dy, i, dy_pitch);
        }
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
        if (sums && (plain || (in_run && t + i < own)))
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
        if (!plain && !a.dx.data) continue;
        float done[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
          // Nothing reaches past the start of the run.
          auto const reaching = [&](int distance) { return !cuts || plain || age >= distance ? dz[k] : 0.0f; };
          done[k] = fma(weights[0][k], reaching(before), pending[before - 1][k]);
#pragma unroll
          for (int d = before - 1; d > 0; --d)
            pending[d][k] = fma(weights[before - d][k], reaching(d), pending[d - 1][k]);
          pending[0][k] = multiply(weights[before][k], dz[k]);
        }
        if (active && (plain || (t + i >= before && t + i - before < own)))
          thread_store_words(dx + std::int64_t(i) * dx_pitch, narrow_words<Storage, Words>(done));
      }
      dx += std::int64_t(group) * dx_pitch;
      if (sums && (t / group) % (chain / group) == chain / group - 1) fold();
    };

    int known = 0;  // tokens of the share before this one are in the run of the last token looked up
    for (int t = 0; t < steps; t += group) {
      if (a.dx.data && t > 0 && t + 2 * group <= own && (!cuts || (t + group <= known && age == before))) {
        compute.template operator()<true>(t, 0, ~0u, -1);
        continue;
      }
      Place mine{1, -1};
      unsigned starts = 0, live = ~0u;  // bit i: token t + i is the first of a run, is in a run
      if (cuts && t + group > known) {
        if (lane < group && t + lane < left) {
          mine = thread_place(call.cut, b, begin + t + lane, 1);
          std::int64_t const end = thread_run_end(call.cut, b, begin + t + lane, mine) - begin;
          known = int(end < left ? end : left);
        }
        starts = __ballot_sync(~0u, mine.age == 0);
        live = __ballot_sync(~0u, mine.age >= 0);
        known = __shfl_sync(~0u, known, group - 1);
      }
      compute.template operator()<false>(t, starts, live, mine.state);
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
