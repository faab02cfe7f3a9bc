// Backward where tokens lie side by side ([B, D, T]): a warp walks from the end of each of its shares of one channel to
// the beginning, a lane computes the vector of 16 bytes that it loads. What its dz adds to dx of the W-1 tokens before
// goes to the lane below; what lane 0's adds, to the last lane of the next step.
#pragma once
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/step_marks.cuh"
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

struct TimeBackward {
  Problem problem;
  BackwardArgs args;
  Cut cut;
  TimeBackwardPolicy policy;
  float* partial;  // [parts, width + 1, channels], null without dweight and dbias
};

// dz of one token, any place.
template <typename Storage>
__device__ __noinline__ float thread_dz(Problem const& p, BackwardArgs const& a, Place place, std::int64_t b,
                                        std::int64_t c, std::int64_t t) {
  float dz = widen(static_cast<Storage const*>(a.dy.data)[offset(a.dy.strides, b, c, t)]);
  if (p.activation == Activation::none) return dz;
  float z = thread_bias<float>(a.bias, p.bias_dtype, c);
  for (int j = 0; j < p.width; ++j)
    z = fma(thread_weight<float>(a.weight, p.weight_dtype, c, j),
            thread_token<Storage>(a.x, a.initial_state, p.state_dtype, place, b, c, t, p.width - 1 - j), z);
  return dz * thread_silu_derivative<Storage>(z);
}

template <typename Storage, int Width, bool cuts>
__global__ __launch_bounds__(time_backward_threads, time_backward_blocks) void backward_time_kernel(
    __grid_constant__ TimeBackward const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, group = 2, all = 32 * n, chain = 64;
  using Halo =
      std::conditional_t<sizeof(Storage) == 2, uint2, uint4>;  // the four tokens before a step of the warp, for lane 0
  auto const& p = call.problem;
  auto const& a = call.args;
  auto const& policy = call.policy;
  __shared__ StepBits<all> bits[cuts ? time_backward_threads / 32 : 1];
  int const lane = threadIdx.x % 32;
  std::int64_t const item = std::int64_t(blockIdx.x) * (time_backward_threads / 32) + threadIdx.x / 32;
  std::int64_t const c = item / policy.parts, part = item - c * policy.parts;
  if (c >= p.channels) return;  // whole warps
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  bool const silu = p.activation == Activation::silu, sums = call.partial;
  float weights[Width], bias = thread_bias<float>(a.bias, p.bias_dtype, c);
  float dweight[Width] = {}, dbias = 0, totals[Width + 1] = {};
#pragma unroll
  for (int j = 0; j < Width; ++j) weights[j] = thread_weight<float>(a.weight, p.weight_dtype, c, j);
  int terms = 0;  // of the chains of dweight and dbias
  auto const fold = [&] {
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      totals[j] += dweight[j];
      dweight[j] = 0;
    }
    totals[Width] += dbias;
    dbias = 0;
    terms = 0;
  };

  for (std::int64_t share = part; share < policy.shares; share += policy.parts) {
    std::int64_t const b = share / policy.row_shares, begin = (share - b * policy.row_shares) * policy.share;
    std::int64_t const end = begin + policy.share < p.time ? begin + policy.share : p.time;
    int const count = int(end - begin);
    auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
    auto const dy = static_cast<Storage const*>(a.dy.data) + offset(a.dy.strides, b, c, begin);
    auto const dx = static_cast<Storage*>(a.dx.data) + offset(a.dx.strides, b, c, begin);
    auto const load = [&](Storage const* from, int t) {
      return t >= 0 && t < count ? *reinterpret_cast<uint4 const*>(from + t) : uint4{};
    };
    auto const load_halo = [&](int t) {
      return lane == 0 && t >= 0 && begin + t > 0 ? *reinterpret_cast<Halo const*>(x + t - 4) : Halo{};
    };
    int const last = (count - 1) / all * all;  // where the first step begins
    uint4 next_x[group], next_dy[group];
    Halo next_halo[group];
#pragma unroll
    for (int i = 0; i < group; ++i) {
      next_x[i] = load(x, last - i * all + lane * n);
      next_dy[i] = load(dy, last - i * all + lane * n);
      next_halo[i] = load_halo(last - i * all);
    }
    // What the tokens behind the share add to its last ones: carried[m - 1] to token end - m.
    float carried[before] = {};
    if (a.dx.data)
#pragma unroll 1
      for (int i = 0; i < before && end + i < p.time; ++i) {
        auto const place = thread_place(call.cut, b, end + i, before);
        if (place.age <= i) break;  // the run begins behind the share
        float const dz = thread_dz<Storage>(p, a, place, b, c, end + i);
#pragma unroll
        for (int m = 1; m <= before; ++m)
#pragma unroll
          for (int d = m; d <= before; ++d)
            if (d == i + m && place.age >= d) carried[m - 1] = fma(weights[before - d], dz, carried[m - 1]);
      }

    StepMarker<all, Walk::down> marker(call.cut, b, begin + last, bits[cuts ? threadIdx.x / 32 : 0]);
    for (int step = last; step >= 0; step -= group * all) {
      uint4 present_x[group], present_dy[group];
      Halo present_halo[group];
#pragma unroll
      for (int i = 0; i < group; ++i) {
        present_x[i] = next_x[i];
        present_dy[i] = next_dy[i];
        present_halo[i] = next_halo[i];
      }
#pragma unroll
      for (int i = 0; i < group; ++i) {
        int const t = step - (group + i) * all;
        next_x[i] = load(x, t + lane * n);
        next_dy[i] = load(dy, t + lane * n);
        next_halo[i] = load_halo(t);
      }
#pragma unroll
      for (int i = 0; i < group; ++i) {
        int const start = step - i * all, at = start + lane * n;
        if (start < 0) break;
        bool const whole = count - start >= all, inside = whole || at < count;
        float tokens[before + n], dz[n], z[n], halo[4];
        widen_words<Storage>(present_x[i], tokens + before);
        widen_words<Storage>(present_dy[i], dz);
        widen_words<Storage>(present_halo[i], halo);
#pragma unroll
        for (int k = 0; k < before; ++k) {
          float const below = __shfl_up_sync(~0u, tokens[n + k], 1);
          tokens[k] = lane ? below : halo[4 - before + k];
        }
        if (!cuts && begin + start == 0 && lane == 0)
#pragma unroll
          for (int k = 0; k < before; ++k)
            tokens[k] = thread_state(call.cut, a.initial_state, p.state_dtype, b, c, 0, before - k);
        float sum[before + n] = {};  // of dx of the tokens at - before ...
        // `marked`: tokens may be in no run, or taps reach before theirs.
        auto const compute = [&]<bool marked>(Ages<n, before> const& ages) {
          float windows[marked ? n * Width : 1];
          bool const young = marked && ages.bits != ages.plain;
          if (young)
            thread_windows<Storage, Width, n>(call.cut, a.x, a.initial_state, p.state_dtype, b, c, begin + at, ages,
                                              windows);
          // xs `before - j` tokens before token k
          auto const token = [&](int k, int j) -> float {
            return young ? windows[marked ? k * Width + j : 0] : tokens[j + k];
          };
          if (silu) {
#pragma unroll
            for (int k = 0; k < n; ++k) z[k] = bias;
#pragma unroll
            for (int j = 0; j < Width; ++j)
#pragma unroll
              for (int k = 0; k < n; ++k) z[k] = fma(weights[j], token(k, j), z[k]);
#pragma unroll
            for (int k = 0; k < n; ++k) dz[k] *= thread_silu_derivative<Storage>(z[k]);
          }
          if (marked || !whole)
#pragma unroll
            for (int k = 0; k < n; ++k)
              if (!inside || (marked && ages.of(k) < 0)) dz[k] = 0;
          if (sums && inside) {
#pragma unroll
            for (int k = 0; k < n; ++k) {
              if (marked && ages.of(k) < 0) continue;
#pragma unroll
              for (int j = 0; j < Width; ++j) dweight[j] = fma(dz[k], token(k, j), dweight[j]);
              dbias += dz[k];
            }
            terms += n;
            if (terms == chain) fold();
          }
          if (a.dx.data)
#pragma unroll
            for (int k = 0; k < n; ++k)
#pragma unroll
              for (int d = 0; d <= before; ++d)
                sum[before + k - d] =
                    fma(weights[before - d], !marked || ages.of(k) >= d ? dz[k] : 0.0f, sum[before + k - d]);
        };
        if (cuts && !marker.is_plain(begin + start, before)) {
          marker.warp_mark(begin + start);
          compute.template operator()<cuts>(marker.template thread_ages<n, before>());
        } else {
          compute.template operator()<false>({});
        }
        if (!a.dx.data) continue;
        int const top = whole ? 31 : (count - start) / n - 1;
#pragma unroll
        for (int m = 1; m <= before; ++m) {
          float const above = __shfl_down_sync(~0u, sum[before - m], 1);
          sum[before + n - m] = add(sum[before + n - m], lane == top ? carried[m - 1] : above);
          carried[m - 1] = __shfl_sync(~0u, sum[before - m], 0);
        }
        if (inside) thread_store_words(dx + at, narrow_words<Storage, uint4>(sum + before));
      }
    }
  }
  if (!sums) return;
  fold();
#pragma unroll
  for (int j = 0; j <= Width; ++j) {
#pragma unroll
    for (int half = 16; half; half /= 2) totals[j] += __shfl_xor_sync(~0u, totals[j], half);
    if (lane == 0) call.partial[(part * (Width + 1) + j) * p.channels + c] = totals[j];
  }
}

}  // namespace faltung::causal_conv1d::cuda
