// Backward where tokens lie side by side ([B, D, T]): a warp walks from the end of each of its shares of one channel to
// the beginning, steps of x and dy on their way to a ring in shared memory; a lane computes a vector of 16 bytes. dz of
// the W-1 tokens behind it comes from the lane above, that of the last lane from the step before. With cuts the walk
// takes no notice of them and leaves out the vectors that they touch, which the lanes have computed before.
#pragma once
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/young_tokens.cuh"
#include "cuda/async_copy.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

struct TimeBackward {
  Problem problem;
  BackwardArgs args;
  Cut cut;
  TimeBackwardPolicy policy;
  float* partial;  // [parts, width + 1, channels], null without dweight and dbias
};

// Chains of dweight and dbias, at most 64 terms before they move on to the totals.
template <int Width>
struct ParameterSums {
  float dweight[Width] = {}, dbias = 0, totals[Width + 1] = {};
  int terms = 0;

  __device__ __forceinline__ void fold() {
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      totals[j] += dweight[j];
      dweight[j] = 0;
    }
    totals[Width] += dbias;
    dbias = 0;
    terms = 0;
  }
  // `count` terms have been added.
  __device__ __forceinline__ void added(int count) {
    constexpr int chain = 64;
    terms += count;
    if (terms >= chain) fold();
  }
};

// dz of a token whose window lies in its run.
template <typename Storage, int Width>
__device__ __noinline__ float thread_dz(Problem const& p, BackwardArgs const& a, std::int64_t b, std::int64_t c,
                                        std::int64_t t) {
  float dz = widen(static_cast<Storage const*>(a.dy.data)[offset(a.dy.strides, b, c, t)]);
  if (p.activation == Activation::none) return dz;
  float z = thread_bias<float>(a.bias, p.bias_dtype, c);
  for (int j = 0; j < Width; ++j)
    z = fma(thread_weight<float>(a.weight, p.weight_dtype, c, j),
            widen(static_cast<Storage const*>(a.x.data)[offset(a.x.strides, b, c, t - (Width - 1) + j)]), z);
  return dz * thread_silu_derivative<Storage>(z);
}

// Of one vector, from the marks: dx of its tokens, and what they add to the sums.
template <typename Storage, int Width>
__device__ __forceinline__ void thread_mend(TimeBackward const& call, ShareMarks<vector_elements<Storage>> const& marks,
                                            Storage const* x, Storage const* dy, Storage* dx, std::int64_t b,
                                            std::int64_t c, std::int64_t t, int at, float const (&weights)[Width],
                                            float bias, bool with_sums, ParameterSums<Width>& sums) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, reach = n + before,
                vectors = (reach + n - 1) / n;  // from the present one on
  auto const& p = call.problem;
  auto const& a = call.args;
  float tokens[before + vectors * n], gradients[vectors * n], z[reach], dz[reach];
  thread_load_before<Storage, before>(x, t, tokens);
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    bool const inside = t + i * n < p.time;
    widen_words<Storage>(inside ? thread_load_vector<Storage>(x, i * n) : uint4{}, tokens + before + i * n);
    widen_words<Storage>(inside ? thread_load_vector<Storage>(dy, i * n) : uint4{}, gradients + i * n);
  }
  YoungTokens<Width, reach> const young(marks, at);
  // Tokens behind the row have no dz, whatever their windows hold.
  unsigned const live = p.time - t < reach ? young.live & ((1u << int(p.time - t)) - 1) : young.live;
#pragma unroll
  for (int k = 0; k < reach; ++k) dz[k] = live >> k & 1 ? gradients[k] : 0.0f;
  if (p.activation == Activation::silu) {
    thread_convolve_young(young, tokens, weights, bias, call.cut, a.initial_state, p.state_dtype, b, c, t, z);
#pragma unroll
    for (int k = 0; k < reach; ++k) dz[k] = live >> k & 1 ? dz[k] * thread_silu_derivative<Storage>(z[k]) : 0.0f;
  }
  if (with_sums) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (!(live >> k & 1)) continue;
#pragma unroll
      for (int j = 0; j < Width; ++j)
        sums.dweight[j] = fma(dz[k], young.reaches(k, before - j) ? tokens[j + k] : 0.0f, sums.dweight[j]);
      sums.dbias += dz[k];
    }
    young.for_each_state(call.cut, a.initial_state, p.state_dtype, b, c, t,
                         [&](int position, float const(&history)[before]) {
#pragma unroll
                           for (int i = 0; i < before; ++i) {
                             float of_token = 0;  // dz of the token i behind the first one of the run
#pragma unroll
                             for (int k = 0; k < n; ++k)
                               if (k - i == position && young.reaches(k, i)) of_token = dz[k];
#pragma unroll
                             for (int m = i; m < before; ++m)
                               sums.dweight[m - i] = fma(of_token, history[m], sums.dweight[m - i]);
                           }
                         });
    sums.added(n);
  }
  if (!a.dx.data) return;
  float result[n];
#pragma unroll
  for (int k = 0; k < n; ++k) {
    result[k] = multiply(weights[before], dz[k]);
#pragma unroll
    for (int d = 1; d <= before; ++d)
      result[k] = fma(weights[before - d], young.reaches(k + d, d) ? dz[k + d] : 0.0f, result[k]);
  }
  thread_store_words(dx, narrow_words<Storage, uint4>(result));
}

// Keeps a flag in a register, where the compiler would look at its origin again.
__device__ __forceinline__ bool thread_kept(bool flag) {
  int kept = flag;
  asm volatile("" : "+r"(kept));
  return kept;
}

template <typename Storage, int Width, bool cuts>
__global__ __launch_bounds__(time_backward_threads(cuts), time_backward_blocks(Width, cuts)) void backward_time_kernel(
    __grid_constant__ TimeBackward const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, all = 32 * n,
                warps = time_backward_threads(cuts) / 32,
                below = (before + n - 1) / n;  // vectors before its own that a lane looks at
  // A ring: in each slot the 32 vectors of x, then those of dy. Offsets in vectors.
  constexpr int stages = 4, slot = 64, ring_vectors = stages * slot;
  auto const& p = call.problem;
  auto const& a = call.args;
  auto const& policy = call.policy;
  __shared__ uint4 rings[warps][ring_vectors];
  __shared__ std::conditional_t<cuts, ShareMarks<n>, char> marks;
  int const lane = threadIdx.x % 32;
  auto const ring = rings[threadIdx.x / 32];
  std::int64_t const channel_block = blockIdx.x / policy.parts, part = blockIdx.x - channel_block * policy.parts;
  std::int64_t c = channel_block * warps + threadIdx.x / 32;
  bool const active = c < p.channels;  // whole warps; with cuts the others mark along
  if (!cuts && !active) return;
  if (!active) c = p.channels - 1;
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();
  bool const silu = thread_kept(p.activation == Activation::silu), with_sums = thread_kept(call.partial),
             with_dx = thread_kept(a.dx.data), with_state = thread_kept(!cuts && a.initial_state.data);
  float weights[Width], bias = thread_bias<float>(a.bias, p.bias_dtype, c);
#pragma unroll
  for (int j = 0; j < Width; ++j) weights[j] = thread_weight<float>(a.weight, p.weight_dtype, c, j);
  ParameterSums<Width> sums;

  for (std::int64_t share = part; share < policy.shares; share += policy.parts) {
    std::int64_t const b = share / policy.row_shares, begin = (share - b * policy.row_shares) * policy.share;
    std::int64_t const end = begin + policy.share < p.time ? begin + policy.share : p.time;
    int const count = int(end - begin), last = (count - 1) / all * all;  // where the first step begins
    auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
    auto const dy = static_cast<Storage const*>(a.dy.data) + offset(a.dy.strides, b, c, begin);
    auto const dx = static_cast<Storage*>(a.dx.data) + offset(a.dx.strides, b, c, begin);
    // Steps on their way to the ring. Behind the last one is what the first tokens' windows reach back to; zeros where
    // the row begins.
    int const least = begin > 0 ? -below * n : 0;
    int asked = last + lane * n;
    Storage const *asked_x = x + asked, *asked_dy = dy + asked;
    auto const ask = [&](unsigned at, bool inside) {
      faltung::cuda::thread_copy_or_zero(ring + at + lane, asked_x, inside && asked >= least);
      faltung::cuda::thread_copy_or_zero(ring + at + 32 + lane, asked_dy, inside && asked >= 0);
      faltung::cuda::thread_commit_copies();
      asked -= all;
      asked_x -= all;
      asked_dy -= all;
    };
    faltung::cuda::thread_wait_for_copies();  // those of the share before
    __syncwarp();
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) ask(i * slot, asked < count);

    if constexpr (cuts) {
      crew_mark<n, before, before>({int(threadIdx.x) / 32, warps}, call.cut, b, begin, count, marks);
      if (!active) continue;
      bool const all_young = marks.all_young(count);
      int const listed = all_young ? count / n : marks.count;
#pragma unroll 1
      for (int i = lane; i < listed; i += 32) {
        int const vector = all_young ? i : int(marks.list[i]), at = vector * n;
        // The walk takes the sums of those that depend on young tokens without being young.
        bool const own = with_sums && (all_young || (marks.steps[vector / 32].young >> vector % 32 & 1));
        thread_mend<Storage, Width>(call, marks, x + at, dy + at, dx + at, b, c, begin + at, at, weights, bias, own,
                                    sums);
      }
      if (all_young) continue;
      __syncwarp();
    }

    // Of the first lanes: dz of their vectors in the step before, which the last lanes take over.
    float behind[before] = {};
    if (end < p.time && with_dx) {
      float const mine =
          lane < before && end + lane < p.time ? thread_dz<Storage, Width>(p, a, b, c, end + lane) : 0.0f;
#pragma unroll
      for (int m = 0; m < before; ++m) behind[m] = __shfl_sync(~0u, mine, (lane * n + m % n) & 31);
    }

    auto to = dx + last + lane * n;
    bool inside = last + lane * n < count;
    int const state_at = with_state && begin == 0 ? 0 : -1;
    unsigned here = 0;
    for (int start = last; start >= 0; start -= all, to -= all, inside = true) {
      unsigned const there = (here + slot) % ring_vectors;      // of the next step
      faltung::cuda::thread_wait_for_copies_but<stages - 3>();  // this step's and the next one's have come
      __syncwarp();
      ask((here - slot) % ring_vectors, true);
      float tokens[before + n], dz[n + before];
      widen_words<Storage>(ring[here + lane], tokens + before);
      widen_words<Storage>(ring[here + 32 + lane], dz);
      {
        float earlier[below * n];
#pragma unroll
        for (int i = 0; i < below; ++i) {
          int const from = lane - below + i;
          auto const vector = ring + (from < 0 ? there + 32 : here) + from;
          if constexpr (before * sizeof(Storage) <= 8)
            widen_words<Storage>(reinterpret_cast<uint2 const*>(vector)[1], earlier + n - int(8 / sizeof(Storage)));
          else
            widen_words<Storage>(*vector, earlier + i * n);
        }
#pragma unroll
        for (int k = 0; k < before; ++k) tokens[k] = earlier[below * n - before + k];
      }
      if (!cuts && start == state_at)
#pragma unroll
        for (int k = 0; k < before; ++k)
          if (lane * n < before - k)
            tokens[k] = thread_state(call.cut, a.initial_state, p.state_dtype, b, c, lane * n, before - k);
      if (silu) {
        float z[n];
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = bias;
#pragma unroll
        for (int j = 0; j < Width; ++j)
#pragma unroll
          for (int k = 0; k < n; ++k) z[k] = fma(weights[j], tokens[j + k], z[k]);
#pragma unroll
        for (int k = 0; k < n; ++k) dz[k] *= thread_silu_derivative<Storage>(z[k]);
      }
      bool own = inside, store = inside;
      if constexpr (cuts) {
        auto const marked = marks.steps[start / all];
        own = own && !(marked.young >> lane & 1);
        store = store && !(marked.touched >> lane & 1);
      }
      if (with_sums) {
        if (own) {
#pragma unroll
          for (int k = 0; k < n; ++k) {
#pragma unroll
            for (int j = 0; j < Width; ++j) sums.dweight[j] = fma(dz[k], tokens[j + k], sums.dweight[j]);
            sums.dbias += dz[k];
          }
        }
        sums.added(n);
      }
      if (with_dx) {
#pragma unroll
        for (int m = 0; m < before; ++m) {
          int const lanes = m / n + 1, element = m % n;
          dz[n + m] = __shfl_sync(~0u, lane < lanes ? behind[m] : dz[element], (lane + lanes) & 31);
        }
#pragma unroll
        for (int m = 0; m < before; ++m) behind[m] = dz[m % n];
        float result[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
          result[k] = multiply(weights[before], dz[k]);
#pragma unroll
          for (int d = 1; d <= before; ++d) result[k] = fma(weights[before - d], dz[k + d], result[k]);
        }
        if (store) thread_store_words(to, narrow_words<Storage, uint4>(result));
      }
      here = there;
    }
  }
  if (!with_sums || !active) return;
  sums.fold();
#pragma unroll
  for (int j = 0; j <= Width; ++j) {
    float& total = sums.totals[j];
#pragma unroll
    for (int half = 16; half; half /= 2) total += __shfl_xor_sync(~0u, total, half);
    if (lane == 0) call.partial[(part * (Width + 1) + j) * p.channels + c] = total;
  }
}

}  // namespace faltung::causal_conv1d::cuda
