// Backward where channels lie side by side ([B, T, D]): a warp walks along the tokens of its share, a thread owns four
// channels, and the next rows of x and dy are on their way to shared memory. dz of a token completes dx of the token
// W-1 before; sums of dweight and dbias leave the registers every `chain` tokens.
#pragma once
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/marks.cuh"
#include "causal_conv1d/cuda/rows.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int channels_backward_group = 4;  // tokens
template <typename Storage>
inline constexpr int channels_backward_groups = sizeof(Storage) == 2 ? 4 : 3;  // in shared memory
template <typename Storage>
using ChannelsBackwardRows =
    Rows<Storage, channels_elements, channels_backward_group, channels_backward_groups<Storage>>;

struct ChannelsBackward {
  Problem problem;
  BackwardArgs args;
  Cut cut;
  ChannelsBackwardPolicy policy;
  bool wide;       // 16 bytes of x and dy can be read at a time
  float* partial;  // [parts, width + 1, channels], null without dweight and dbias
};

// Shared memory: sums, then rows of x and of dy of each warp.
template <int Width>
using ChannelsBackwardSums = float[(Width + 1) * channels_elements][channels_backward_threads];

// Waits for the `threads` of the block's share `place`.
__device__ __forceinline__ void share_wait(int place, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(place + 1), "r"(threads) : "memory");
}

template <typename Storage, int Width, bool cuts>
__global__
__launch_bounds__(channels_backward_threads, channels_backward_blocks(sizeof(Storage))) void backward_channels_kernel(
    __grid_constant__ ChannelsBackward const call) {
  constexpr int n = channels_elements, before = Width - 1, group = channels_backward_group,
                groups = channels_backward_groups<Storage>, chain = 64;
  using Rows = ChannelsBackwardRows<Storage>;
  using Words = Words<Storage, n>;
  extern __shared__ __align__(16) std::byte memory[];
  auto& totals = *reinterpret_cast<ChannelsBackwardSums<Width>*>(memory);
  auto const& p = call.problem;
  auto const& a = call.args;
  auto const& policy = call.policy;
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int64_t const part = blockIdx.x / unsigned(policy.side_by_side),
                     column = blockIdx.x - part * policy.side_by_side;
  int const lanes = 1 << policy.lane_bits, place = threadIdx.x >> policy.lane_bits;  // of the share in the block
  std::int64_t const share = part * (channels_backward_threads >> policy.lane_bits) + place;
  std::int64_t const warp_c = (column * lanes + (threadIdx.x & (lanes - 1)) - lane) * n;
  bool const works = share < policy.shares && warp_c < p.channels;  // whole warps
  int const channels = int(p.channels - warp_c < 32 * n ? p.channels - warp_c : 32 * n);
  std::int64_t const c = works ? warp_c + Rows::thread_channel(channels, call.wide) : 0;
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  bool const silu = p.activation == Activation::silu;
  float weights[Width][n], bias[n], dweight[Width][n] = {}, dbias[n] = {};
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

  if (works) {
    std::int64_t const b = share / policy.row_shares, begin = (share - b * policy.row_shares) * policy.share;
    int const own = int(p.time - begin < policy.share ? p.time - begin : policy.share);
    // dx of the last own tokens waits for W-1 tokens behind them, as far as there are some.
    int const steps = a.dx.data ? own + before : own, left = int(p.time - begin < steps ? p.time - begin : steps);
    auto const at = [&](ConstView const& view) {
      return static_cast<Storage const*>(view.data) + offset(view.strides, b, warp_c, begin);
    };
    auto const rows = memory + sizeof totals + warp * 2 * Rows::bytes;
    Rows x(rows, at(a.x), a.x.strides.time, channels, call.wide),
        dy(rows + Rows::bytes, at(a.dy), a.dy.strides.time, channels, call.wide);
    int const whole = call.wide ? left - group + 1 : 0;  // groups that begin before are
    auto const ask = [&](int slot, int t) {
      if (t < whole) {
        x.warp_ask(slot);
        dy.warp_ask(slot);
      } else if (t < left) {
        x.warp_ask(slot, left - t);
        dy.warp_ask(slot, left - t);
      }
      thread_end_group();
    };
#pragma unroll 1
    for (int i = 0; i + 1 < groups; ++i) ask(i, i * group);
    thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
    thread_load_bias<Storage, n>(p, a.bias, c, bias);
    float history[before][n];
    float pending[before][n] = {};  // pending[k]: what has reached dx of the token k before the last one
    // The rows before token t of the share, as far as they count.
    auto const look_back = [&](Place const& place, int t) {
      if (place.age >= before) {
        auto const from = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin + t - before);
        Words rows[before];
#pragma unroll
        for (int k = 0; k < before; ++k) rows[k] = *reinterpret_cast<Words const*>(from + k * a.x.strides.time);
#pragma unroll
        for (int k = 0; k < before; ++k) widen_words<Storage>(rows[k], history[k]);
      } else if (place.age <= 0 && !a.initial_state.data) {
#pragma unroll
        for (int i = 0; i < before * n; ++i) history[i / n][i % n] = 0;
      } else {
        thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, place, b, c, begin + t,
                                                history);
      }
    };
    Place first{begin, b};
    if (cuts) first = warp_marks(call.cut, b, begin - before, a.initial_state.data).warp_place(before);
    look_back(first, 0);
    int age = int(first.age < before ? first.age : before) - 1;  // of the token before, at most W-1
    Marks marks{0, ~0u, -1};                                     // of 32 tokens
    auto dx = static_cast<Storage*>(a.dx.data) + offset(a.dx.strides, b, c, begin - before);
    int const dx_pitch = int(a.dx.strides.time);  // fits_backward_channels() has looked
    int slot = 0;
    int const plain_end = a.dx.data ? own - group : 0;           // of the groups that may be plain
    std::int64_t const there = p.channels - column * lanes * n;  // channels from the block's first on
    int const working = there < lanes * n ? int((there + 32 * n - 1) / (32 * n)) * 32 : lanes;  // threads of the share

    // What d(final_state) adds to dx of token t of the row: of the last W-1 of a sequence, none of which is stored by a
    // plain group.
    auto const add_final = [&](std::int64_t t, float(&done)[n]) {
      auto const& final = a.dfinal_state;
      auto const place = thread_place(call.cut, b, t, 0);
      auto const from = place.age < 0 ? FromEnd{-1, 0} : thread_from_end(call.cut, b, t, place.state, final.columns);
      if (from.distance == 0) return;
      float entries[n];
      thread_gather<n>(final.data, p.final_state_dtype, offset(final, from.sequence, c, final.columns - from.distance),
                       final.channel, entries);
#pragma unroll
      for (int k = 0; k < n; ++k) done[k] = add(done[k], entries[k]);
    };

    // Token i of the group. `reach`: how many tokens before it are in its run, at most W-1; -1: it is in none itself.
    auto const step = [&](int i, bool silu, bool counts, bool biased, int reach, float(&done)[n]) {
      float token[n], dz[n];
      widen_words<Storage>(x.thread_read(slot, i), token);
      widen_words<Storage>(dy.thread_read(slot, i), dz);
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
#pragma unroll
      for (int k = 0; k < n; ++k) {
        if (reach < 0) dz[k] = 0;
        if (counts) {
#pragma unroll
          for (int j = 0; j < Width; ++j)
            dweight[j][k] = fma(dz[k], j < before ? history[j % before][k] : token[k], dweight[j][k]);
          if (biased) dbias[k] += dz[k];
        }
        // Nothing reaches past the start of the run.
        auto const reaching = [&](int distance) { return reach >= distance ? dz[k] : 0.0f; };
        done[k] = fma(weights[0][k], reaching(before), pending[before - 1][k]);
#pragma unroll
        for (int d = before - 1; d > 0; --d)
          pending[d][k] = fma(weights[before - d][k], reaching(d), pending[d - 1][k]);
        pending[0][k] = multiply(weights[before][k], dz[k]);
      }
#pragma unroll
      for (int j = 0; j < before; ++j)
#pragma unroll
        for (int k = 0; k < n; ++k) history[j][k] = j + 1 < before ? history[(j + 1) % before][k] : token[k];
    };
    auto const plain_group = [&](bool silu, bool biased) {
#pragma unroll
      for (int i = 0; i < group; ++i) {
        float done[n];
        step(i, silu, true, biased, before, done);
        thread_store_words(dx + std::int64_t(i) * dx_pitch, narrow_words<Storage, Words>(done));
      }
    };
    for (int t = 0; t < steps; t += group) {
      // The share's warps go in step: rows are then read as long pieces of memory, and a group's place is free once all
      // have come here.
      thread_wait_for_groups<groups - 2>();
      share_wait(place, working);
      ask(slot == 0 ? groups - 1 : slot - 1, t + (groups - 1) * group);
      if (cuts && t % 32 == 0) marks = warp_marks(call.cut, b, begin + t, a.initial_state.data);
      constexpr unsigned all = (1u << group) - 1;
      if (t > 0 && t <= plain_end && age == before &&
          (!cuts || ((marks.starts | ~marks.live) >> (t % 32) & all) == 0)) {
        if (!silu)
          plain_group(false, true);
        else if (a.dbias.data)
          plain_group(true, true);
        else
          plain_group(true, false);
      } else {
        // Rolled up: the way of most groups must stay short enough for the instruction cache.
#pragma unroll 1
        for (int i = 0; i < group; ++i) {
          age = age < before ? age + 1 : before;
          if (cuts && marks.starts >> (t % 32 + i) & 1) {
            age = 0;
            look_back({0, marks.warp_sequence(t % 32 + i)}, t + i);
          }
          bool const in_run = t + i < left && (!cuts || marks.live >> (t % 32 + i) & 1);
          float done[n];
          step(i, silu, in_run && t + i < own, true, in_run ? age : -1, done);
          if (!a.dx.data || t + i < before || t + i - before >= own) continue;
          if (a.dfinal_state.data) add_final(begin + t + i - before, done);
          thread_store_words(dx + std::int64_t(i) * dx_pitch, narrow_words<Storage, Words>(done));
        }
      }
      dx += std::int64_t(group) * dx_pitch;
      slot = slot + 1 < groups ? slot + 1 : 0;
      if ((t / group) % (chain / group) == chain / group - 1) fold();
    }
    fold();
  }
  // The sums of the block's shares, in their order.
  __syncthreads();
  if (!call.partial || !works || threadIdx.x >= lanes) return;
#pragma unroll
  for (int j = 0; j <= Width; ++j) {
    float sum[n];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      sum[k] = totals[j * n + k][threadIdx.x];
      for (int i = threadIdx.x + lanes; i < channels_backward_threads; i += lanes)
        sum[k] = add(sum[k], totals[j * n + k][i]);
    }
    *reinterpret_cast<float4*>(call.partial + (part * (Width + 1) + j) * p.channels + c) =
        float4{sum[0], sum[1], sum[2], sum[3]};
  }
}

}  // namespace faltung::causal_conv1d::cuda
