// Update by one token where words of channels of x, y and the state can be moved at a time: a thread owns `n` channels
// of several rows, one after the other. The state holds W-1 or W columns, which move by one: channel by channel ([N, D,
// S]), or side by side along channels.
#pragma once
#include "causal_conv1d/cuda/update/row.cuh"
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"
#include "cuda/mma.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int vectors_update_threads = 128;  // at most

enum class StateLayout { columns_inside, channels_inside };

struct VectorsUpdate {
  Problem problem;
  UpdateArgs args;
  std::int64_t row_step;  // rows between those of one thread
  bool staged;            // columns inside: a warp moves its state as a whole, by way of shared memory
};

// What a thread reads of one row, and where its state comes from and goes to; null: nowhere.
template <typename Storage, typename Words, int Columns>
struct RowVectors {
  Storage *source, *destination;
  Words token, state[Columns];
};

// Has a value computed here, not where it is first used.
__device__ __forceinline__ void thread_want(void const* pointer) { asm volatile("" ::"l"(pointer)); }
__device__ __forceinline__ void thread_want(bool flag) { asm volatile("" ::"r"(int(flag))); }

template <typename Storage, int n, int Width, int Columns, StateLayout layout>
__global__ __launch_bounds__(vectors_update_threads) void update_vectors_kernel(
    __grid_constant__ VectorsUpdate const call) {
  constexpr int before = Width - 1;
  constexpr bool single = sizeof(Storage) * n < 16;  // one row for each thread
  using Words = Words<Storage, n>;
  using Bits = std::conditional_t<sizeof(Storage) == 2, std::uint16_t, std::uint32_t>;
  auto const& p = call.problem;
  auto const& a = call.args;
  constexpr bool can_stage = layout == StateLayout::columns_inside && Columns > 1 && sizeof(Words) == 16;
  __shared__ Words stage[can_stage ? vectors_update_threads / 32 : 1][can_stage ? 32 * Columns : 1];
  int const lane = threadIdx.x % 32;
  std::int64_t const first = blockIdx.x, warp_c = std::int64_t(blockIdx.y * blockDim.x + threadIdx.x - lane) * n;
  std::int64_t const c = warp_c + lane * n;
  bool const staged = can_stage && call.staged;  // whole warps then
  if (c >= p.channels) return;
  // Vector `i` of channels; or the channels' columns one behind the other, those of the thread or every 32nd of the
  // warp.
  std::int64_t const vector_step = layout == StateLayout::channels_inside ? a.state.column : staged ? 32 * n : n;
  auto token = static_cast<Storage const*>(a.x.data) + first * a.x.strides.batch + c;
  auto const state = static_cast<Storage*>(a.state.data) + (layout == StateLayout::channels_inside ? c
                                                            : staged ? warp_c * Columns + lane * n
                                                                     : c * Columns);
  bool const indexed = a.source.data || a.destination.data;
  auto own_state = state + first * a.state.sequence;  // of the slot with the row's own number
  bool const weight_words = weights_are_words<Storage, Width, n>(p, a.weight);
  auto weight = static_cast<Storage const*>(a.weight.data) + c * Width;
  auto const y_data = static_cast<Storage*>(a.y.data) + c;
  thread_want(token), thread_want(own_state), thread_want(weight), thread_want(weight_words), thread_want(indexed);
  thread_want(y_data), thread_want(a.bias.data), thread_want(p.activation == Activation::silu);
  // The weights may have been written by the kernel before: they can be fetched as far as L2, but not read, while it
  // ends.
  if (weight_words) faltung::cuda::thread_prefetch(weight);
  // Few rows are done as soon as the next kernel has been launched, so that it may be at once.
  if (single) faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  if (!single) faltung::cuda::grid_release_successor();

  auto const read = [&](std::int64_t row) {
    RowVectors<Storage, Words, Columns> result{own_state, own_state};
    if (indexed) {
      auto const slots = thread_slots(a, row);
      result.source = slots.source < 0 ? nullptr : state + slots.source * a.state.sequence;
      result.destination = slots.destination < 0 ? nullptr : state + slots.destination * a.state.sequence;
      if (!result.source) return result;
    }
    result.token = *reinterpret_cast<Words const*>(token);
#pragma unroll
    for (int i = 0; i < Columns; ++i)
      result.state[i] = *reinterpret_cast<Words const*>(result.source + i * vector_step);
    return result;
  };
  auto next_row = read(first);  // before the weights, whose loads may be calls
  float weights[Width][n], bias[n];
  if (weight_words)
    thread_load_words<Storage>(a.weight.data, c, weights);
  else
    thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
  thread_load_bias<Storage, n>(p, a.bias, c, bias);
  for (std::int64_t row = first; row < p.sequences; row += call.row_step) {
    auto const present = next_row;
    if (!single) {
      token += call.row_step * a.x.strides.batch;
      own_state += call.row_step * a.state.sequence;
      if (row + call.row_step < p.sequences) next_row = read(row + call.row_step);
    }
    auto const y = y_data + row * a.y.strides.batch;
    if (!present.source) {
      thread_store_words(y, Words{});
      if (single) return;
      continue;
    }
    Words old[Columns], next[Columns];
#pragma unroll
    for (int i = 0; i < Columns; ++i) old[i] = present.state[i];
    auto const mine = stage[can_stage ? threadIdx.x / 32 : 0];
    if (staged) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) mine[i * 32 + lane] = old[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < Columns; ++i) old[i] = mine[lane * Columns + i];
      __syncwarp();
    }
    float z[n], window[Columns + 1][n];
    widen_words<Storage>(present.token, window[Columns]);
    if constexpr (layout == StateLayout::channels_inside) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) {
        widen_words<Storage>(old[i], window[i]);
        next[i] = i + 1 < Columns ? old[(i + 1) % Columns] : present.token;
      }
    } else {
      auto const old_bits = reinterpret_cast<Bits const*>(old),
                 token_bits = reinterpret_cast<Bits const*>(&present.token);
      auto const new_bits = reinterpret_cast<Bits*>(next);
      float values[Columns * n];
#pragma unroll
      for (int i = 0; i < Columns; ++i) widen_words<Storage>(old[i], values + i * n);
#pragma unroll
      for (int k = 0; k < n; ++k)
#pragma unroll
        for (int i = 0; i < Columns; ++i) {
          window[i][k] = values[k * Columns + i];
          new_bits[k * Columns + i] = i + 1 < Columns ? old_bits[k * Columns + i + 1] : token_bits[k];
        }
    }
#pragma unroll
    for (int k = 0; k < n; ++k) z[k] = bias[k];
#pragma unroll
    for (int j = 0; j < Width; ++j)
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = fma(weights[j][k], window[Columns - before + j][k], z[k]);
    if (p.activation == Activation::silu)
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = thread_silu<Storage>(z[k]);
    thread_store_words(y, narrow_words<Storage, Words>(z));
    if (!present.destination) {
      if (single) return;
      continue;
    }
    if (staged) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) mine[lane * Columns + i] = next[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < Columns; ++i) next[i] = mine[i * 32 + lane];
      __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < Columns; ++i) thread_store_words(present.destination + i * vector_step, next[i]);
    if (single) return;
  }
}

}  // namespace faltung::causal_conv1d::cuda
