// Backward for any strides, dtypes, width and cut: a block computes dz of a tile of tokens and of the W-1 tokens behind
// it, whose windows reach back into it, in shared memory; dx follows from dz, and sums of dweight and dbias, which the
// block carries from tile to tile.
#pragma once
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/tensors.cuh"

namespace faltung::causal_conv1d::cuda {

struct AnyBackward {
  Problem problem;
  BackwardArgs args;
  Cut cut;
  AnyBackwardPolicy policy;
  void* partial;  // [parts, width + 1, channels] of Real, null without dweight and dbias
};

// Shared memory: one tile of tokens x one tile of channels.
template <typename R>
struct AnyBackwardTile {
  R* xs;                // [tokens + 2 (width - 1), channels] from width - 1 tokens before the tile
  R* dz;                // [tokens + width - 1, channels]
  R* weight;            // [width, channels]
  R* bias;              // [channels]
  double* sums;         // [width + 1, channels]
  std::int64_t* state;  // [tokens + width - 1], as in Place
  int* age;             // likewise
  __device__ AnyBackwardTile(std::byte* memory, AnyBackwardPolicy const& policy, int width) {
    int const n = policy.channels, reach = policy.tokens + width - 1;
    sums = reinterpret_cast<double*>(memory);
    state = reinterpret_cast<std::int64_t*>(sums + (width + 1) * n);
    xs = reinterpret_cast<R*>(state + reach);
    dz = xs + (reach + width - 1) * n;
    weight = dz + reach * n;
    bias = weight + width * n;
    age = reinterpret_cast<int*>(bias + n);
  }
};

// body(token, channel) for a tile's elements, neighbouring threads along the axis of unit stride.
template <typename Body>
__device__ __forceinline__ void block_for_each(AnyBackwardPolicy const& policy, int tokens, Body&& body) {
  int const count = tokens * policy.channels;
  for (int i = threadIdx.x; i < count; i += any_backward_threads)
    if (policy.along_time)
      body(i % tokens, i / tokens);
    else
      body(i / policy.channels, i % policy.channels);
}

template <typename Storage>
__global__ __launch_bounds__(any_backward_threads) void backward_any_kernel(__grid_constant__ AnyBackward const call) {
  using R = Real<Storage>;
  extern __shared__ __align__(16) std::byte memory[];
  auto const& p = call.problem;
  auto const& a = call.args;
  auto const& policy = call.policy;
  AnyBackwardTile<R> const tile(memory, policy, p.width);
  int const width = p.width, before = width - 1, n = policy.channels;
  std::int64_t const part = blockIdx.x / policy.channel_tiles, first = blockIdx.x % policy.channel_tiles * n;
  int const channels = int(p.channels - first < n ? p.channels - first : n);
  bool const sums = call.partial, silu = p.activation == Activation::silu, need_dz = a.dx.data || sums,
             need_x = (silu && need_dz) || a.dweight.data;
  for (int i = threadIdx.x; i < (width + 1) * n; i += any_backward_threads) tile.sums[i] = 0;
  for (int i = threadIdx.x; i < width * n; i += any_backward_threads)
    tile.weight[i] =
        a.weight.data && i % n < channels ? thread_weight<R>(a.weight, p.weight_dtype, first + i % n, i / n) : R(0);
  for (int i = threadIdx.x; i < channels; i += any_backward_threads)
    tile.bias[i] = thread_bias<R>(a.bias, p.bias_dtype, first + i);

  for (std::int64_t item = part; item < policy.tiles; item += policy.parts) {
    std::int64_t const b = item / policy.time_tiles, t0 = item % policy.time_tiles * policy.tokens;
    std::int64_t const left = p.time - t0;
    int const count = int(left < policy.tokens ? left : policy.tokens);
    int const reach = a.dx.data ? int(left < count + before ? left : count + before) : count;
    __syncthreads();
    for (int i = threadIdx.x; i < reach; i += any_backward_threads) {
      auto const place = thread_place(call.cut, b, t0 + i, before);
      tile.age[i] = int(place.age < before ? place.age : before);
      tile.state[i] = place.state;
    }
    if (need_x)
      block_for_each(policy, reach + before, [&](int i, int c) {
        std::int64_t const t = t0 - before + i;
        tile.xs[i * n + c] = t >= 0 && c < channels
                                 ? widen(static_cast<Storage const*>(a.x.data)[offset(a.x.strides, b, first + c, t)])
                                 : R(0);
      });
    __syncthreads();
    // xs `distance` tokens before token i of the tile
    auto const token = [&](int i, int c, int distance) -> R {
      if (distance <= tile.age[i]) return tile.xs[(i + before - distance) * n + c];
      if (tile.state[i] < 0 || !a.initial_state.data) return 0;
      auto const& state = a.initial_state;
      return thread_load<R>(state.data, p.state_dtype,
                            offset(state, tile.state[i], first + c, state.columns + tile.age[i] - distance));
    };
    block_for_each(policy, reach, [&](int i, int c) {
      R dz = 0;
      if (c < channels && tile.age[i] >= 0) {
        auto const at = offset(a.dy.strides, b, first + c, t0 + i);
        dz = widen(static_cast<Storage const*>(a.dy.data)[at]);
        if (silu && need_dz) {
          R z = tile.bias[c];
          for (int j = 0; j < width; ++j) z = fma(tile.weight[j * n + c], token(i, c, before - j), z);
          dz *= thread_silu_derivative<Storage>(z);
        }
      }
      tile.dz[i * n + c] = dz;
      if (a.dresidual.data && i < count && c < channels) {
        auto const to = offset(a.dresidual.strides, b, first + c, t0 + i);
        if (tile.age[i] >= 0)
          thread_copy(a.dy.data, p.x_dtype, offset(a.dy.strides, b, first + c, t0 + i), a.dresidual.data, p.x_dtype,
                      to);
        else
          static_cast<Storage*>(a.dresidual.data)[to] = narrow<Storage>(R(0));
      }
    });
    __syncthreads();
    if (a.dx.data)
      block_for_each(policy, count, [&](int i, int c) {
        if (c >= channels) return;
        R dx = 0;
        for (int k = 0; k < width && i + k < reach; ++k)
          if (tile.age[i + k] >= k) dx = fma(tile.weight[(before - k) * n + c], tile.dz[(i + k) * n + c], dx);
        if (a.dfinal_state.data && tile.age[i] >= 0) {
          auto const& final = a.dfinal_state;
          auto const from = thread_from_end(call.cut, b, t0 + i, tile.state[i], final.columns);
          if (from.distance)
            dx = add(dx, thread_load<R>(final.data, p.final_state_dtype,
                                        offset(final, from.sequence, first + c, final.columns - from.distance)));
        }
        static_cast<Storage*>(a.dx.data)[offset(a.dx.strides, b, first + c, t0 + i)] = narrow<Storage>(dx);
      });
    if (sums)
      for (int pair = threadIdx.x; pair < (width + 1) * n; pair += any_backward_threads) {
        int const j = pair / n, c = pair % n;
        if (c >= channels || (j < width && !a.dweight.data)) continue;
        R sum = 0;  // a chain of at most any_backward_tokens terms
        for (int i = 0; i < count; ++i) {
          if (tile.age[i] < 0) continue;
          R const dz = tile.dz[i * n + c];
          sum = j < width ? fma(dz, token(i, c, before - j), sum) : add(sum, dz);
        }
        tile.sums[pair] += double(sum);
      }
  }
  if (!sums) return;
  __syncthreads();
  for (int pair = threadIdx.x; pair < (width + 1) * n; pair += any_backward_threads)
    if (pair % n < channels)
      static_cast<R*>(call.partial)[(part * (width + 1) + pair / n) * p.channels + first + pair % n] =
          R(tile.sums[pair]);
}

}  // namespace faltung::causal_conv1d::cuda
