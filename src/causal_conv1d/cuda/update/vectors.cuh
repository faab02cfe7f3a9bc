// Update by one token where 16 bytes of channels of x, y and the state can be moved at a time: a thread owns them for
// several rows, one after the other. The state holds W-1 or W columns, which move by one: channel by channel ([N, D,
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

// What a thread reads of one row.
template <int Columns>
struct RowVectors {
  Slots slots;
  uint4 token, state[Columns];
};

template <typename Storage, int Width, int Columns, StateLayout layout>
__global__ __launch_bounds__(vectors_update_threads) void update_vectors_kernel(
    __grid_constant__ VectorsUpdate const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1;
  using Bits = std::conditional_t<sizeof(Storage) == 2, std::uint16_t, std::uint32_t>;
  auto const& p = call.problem;
  auto const& a = call.args;
  constexpr bool can_stage = layout == StateLayout::columns_inside && Columns > 1;
  __shared__ uint4 stage[can_stage ? vectors_update_threads / 32 : 1][can_stage ? 32 * Columns : 1];
  int const lane = threadIdx.x % 32;
  std::int64_t const first = blockIdx.x, warp_c = std::int64_t(blockIdx.y * blockDim.x + threadIdx.x - lane) * n;
  std::int64_t const c = warp_c + lane * n;
  bool const staged = can_stage && call.staged;  // whole warps then
  if (c >= p.channels) return;
  // The weights may have been written by the kernel before: they can be fetched as far as L2, but not read, while it
  // ends.
  faltung::cuda::thread_prefetch(static_cast<std::byte const*>(a.weight.data) +
                                 c * a.weight.channel * size_of(p.weight_dtype));
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();

  // Vector `i` of channels; or the channels' columns one behind the other, those of the thread or every 32nd of the
  // warp.
  auto const at = [&](std::int64_t slot, int i) {
    if (layout == StateLayout::channels_inside) return slot * a.state.sequence + c + i * a.state.column;
    return slot * a.state.sequence + (staged ? warp_c * Columns + (i * 32 + lane) * n : c * Columns + i * n);
  };
  auto const read = [&](std::int64_t row) {
    RowVectors<Columns> result{};
    result.slots = thread_slots(a, row);
    if (result.slots.source < 0) return result;
    result.token = thread_load_vector<Storage>(a.x.data, row * a.x.strides.batch + c);
#pragma unroll
    for (int i = 0; i < Columns; ++i)
      result.state[i] = thread_load_vector<Storage>(a.state.data, at(result.slots.source, i));
    return result;
  };
  auto next_row = read(first);  // before the weights, whose loads may be calls
  float weights[Width][n], bias[n];
  thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
  thread_load_bias<Storage, n>(p, a.bias, c, bias);
  for (std::int64_t row = first; row < p.sequences; row += call.row_step) {
    auto const present = next_row;
    if (row + call.row_step < p.sequences) next_row = read(row + call.row_step);
    std::int64_t const to = row * a.y.strides.batch + c;
    if (present.slots.source < 0) {
      thread_store_vector<Storage>(a.y.data, to, uint4{});
      continue;
    }
    uint4 state[Columns], next[Columns];
#pragma unroll
    for (int i = 0; i < Columns; ++i) state[i] = present.state[i];
    auto const mine = stage[can_stage ? threadIdx.x / 32 : 0];
    if (staged) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) mine[i * 32 + lane] = state[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < Columns; ++i) state[i] = mine[lane * Columns + i];
      __syncwarp();
    }
    float z[n], window[Columns + 1][n];
    widen_words<Storage>(present.token, window[Columns]);
    if constexpr (layout == StateLayout::channels_inside) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) {
        widen_words<Storage>(state[i], window[i]);
        next[i] = i + 1 < Columns ? state[(i + 1) % Columns] : present.token;
      }
    } else {
      auto const old_bits = reinterpret_cast<Bits const*>(state),
                 token_bits = reinterpret_cast<Bits const*>(&present.token);
      auto const new_bits = reinterpret_cast<Bits*>(next);
      float values[Columns * n];
#pragma unroll
      for (int i = 0; i < Columns; ++i) widen_words<Storage>(state[i], values + i * n);
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
    thread_store_vector<Storage>(a.y.data, to, narrow_words<Storage, uint4>(z));
    if (present.slots.destination < 0) continue;
    if (staged) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) mine[lane * Columns + i] = next[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < Columns; ++i) next[i] = mine[i * 32 + lane];
      __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < Columns; ++i)
      thread_store_vector<Storage>(a.state.data, at(present.slots.destination, i), next[i]);
  }
}

}  // namespace faltung::causal_conv1d::cuda
