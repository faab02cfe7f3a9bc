// Forward where channels lie side by side ([B, T, D]): a thread computes a tile of 16 bytes of channels by a few
// tokens, and asks for all of it, and for the W-1 tokens before, before it computes any. Blocks are many and short:
// memory serves some multiprocessors better than others, and blocks that walk along equal shares wait for the slowest.
#pragma once
#include "causal_conv1d/cuda/marks.cuh"
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"
#include "cuda/mma.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int channels_forward_threads = 128, channels_forward_blocks = 4;  // blocks of a multiprocessor
// Of a tile: what 128 registers hold. 8 tokens of 16 bits reach 0.93 of a copy, 12 0.96, 16 with three blocks 0.92;
// fp16 spills from 10 on.
template <typename Storage, bool adds>  // a residual
inline constexpr int channels_forward_tokens = sizeof(Storage) == 4              ? 16
                                               : std::is_same_v<Storage, __half> ? 9
                                               : adds                            ? 11
                                                                                 : 12;

struct ChannelsForward {
  Problem problem;
  ForwardArgs args;
  Cut cut;
  int lane_bits;  // 1 << lane_bits threads, whole warps, lie side by side along channels; the others take other tiles
  std::int64_t first_row, first_tile;  // of the launch, whose grid is [blocks along channels, tiles of a row, rows]
  // Weights and bias lie as [channels, width] and [channels] in the dtype of x. Else they are gathered, before anything
  // is in the registers, and wait in shared memory.
  bool together;
};
template <typename Storage, int Width>
using ChannelsForwardParameters = float[(Width + 1) * vector_elements<Storage>][channels_forward_threads];

template <typename Storage, int Width, bool adds>  // a residual
__global__ __launch_bounds__(channels_forward_threads, channels_forward_blocks) void forward_channels_kernel(
    __grid_constant__ ChannelsForward const call) {
  constexpr int n = vector_elements<Storage>, before = Width - 1, tokens = channels_forward_tokens<Storage, adds>;
  auto const& p = call.problem;
  auto const& a = call.args;
  int const lane = threadIdx.x & ((1 << call.lane_bits) - 1),
            tile = blockIdx.y * (channels_forward_threads >> call.lane_bits) + (threadIdx.x >> call.lane_bits);
  std::int64_t const b = call.first_row + blockIdx.z, begin = (call.first_tile + tile) * tokens;
  std::int64_t c = ((std::int64_t(blockIdx.x) << call.lane_bits) + lane) * n;
  if (c >= p.channels) c = p.channels - n;  // lanes beyond the last channel do what it does: warps vote
  if (begin >= p.time) return;              // whole warps
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();

  int const left = int(p.time - begin < tokens ? p.time - begin : tokens);
  auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin - before);
  auto y = static_cast<Storage*>(a.y.data) + offset(a.y.strides, b, c, begin);
  bool const silu = p.activation == Activation::silu;
  extern __shared__ __align__(16) std::byte memory[];
  auto& parameters = *reinterpret_cast<ChannelsForwardParameters<Storage, Width>*>(memory);
  float weights[Width][n], bias[n], history[before][n];
  if (!call.together) {
    thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
    thread_load_bias<Storage, n>(p, a.bias, c, bias);
#pragma unroll
    for (int k = 0; k < n; ++k) {
#pragma unroll
      for (int j = 0; j < Width; ++j) parameters[j * n + k][threadIdx.x] = weights[j][k];
      parameters[Width * n + k][threadIdx.x] = bias[k];
    }
  }
  // Where runs start among the W-1 tokens before and the tile's: known before the rows are asked for, since there would
  // be no registers left to find it out.
  constexpr unsigned all = (1u << (before + tokens)) - 1;
  Marks marks{0, all, -1};  // of the W-1 tokens before, and of the tile's
  if (call.cut.kind != Sequences::whole || begin < before)
    marks = warp_marks(call.cut, b, begin - before, a.initial_state.data);
  uint4 rows[before + tokens];
  if (begin >= before) {
    auto from = x;
#pragma unroll
    for (int i = 0; i < before + tokens; ++i) {
      if (i >= before + left) break;
      rows[i] = *reinterpret_cast<uint4 const*>(from);
      from += a.x.strides.time;
    }
  }
  auto residual = static_cast<Storage const*>(a.residual.data) + offset(a.residual.strides, b, c, begin);
  if (adds)
#pragma unroll 1
    for (int i = 0; i < left; ++i) faltung::cuda::thread_prefetch(residual + i * a.residual.strides.time);
  if (call.together) {
    thread_load_words<Storage>(a.weight.data, c, weights);
    thread_load_words<Storage>(a.bias.data, c, bias);
  } else {
#pragma unroll
    for (int k = 0; k < n; ++k) {
#pragma unroll
      for (int j = 0; j < Width; ++j) weights[j][k] = parameters[j * n + k][threadIdx.x];
      bias[k] = parameters[Width * n + k][threadIdx.x];
    }
  }
  // Token i of the tile: z, and the rows before the next token.
  auto const convolve = [&](uint4 const& row, float(&z)[n]) {
    float token[n];
    widen_words<Storage>(row, token);
#pragma unroll
    for (int k = 0; k < n; ++k) z[k] = bias[k];
#pragma unroll
    for (int j = 0; j < Width; ++j)
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = fma(weights[j][k], j < before ? history[j % before][k] : token[k], z[k]);
#pragma unroll
    for (int j = 0; j < before; ++j)
#pragma unroll
      for (int k = 0; k < n; ++k) history[j][k] = j + 1 < before ? history[(j + 1) % before][k] : token[k];
  };
  auto const finish = [&](bool silu, float(&z)[n]) {
    if (silu)
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = thread_silu<Storage>(z[k]);
    if (adds) {
      float more[n];
      widen_words<Storage>(*reinterpret_cast<uint4 const*>(residual), more);
      residual += a.residual.strides.time;
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = add(z[k], more[k]);
    }
  };
  auto const store = [&](float const(&z)[n]) {
    thread_store_words(y, narrow_words<Storage, uint4>(z));
    y += a.y.strides.time;
  };
  auto const plain_tile = [&](bool silu) {
#pragma unroll
    for (int i = 0; i < before; ++i) widen_words<Storage>(rows[i], history[i]);
#pragma unroll
    for (int i = 0; i < tokens; ++i) {
      if (i >= left) break;
      float z[n];
      convolve(rows[before + i], z);
      finish(silu, z);
      store(z);
    }
  };
  // A run may start with the oldest token that is read.
  if (begin >= before && (marks.starts & all & ~1u) == 0 && (marks.live & all) == all) {
    if (silu)
      plain_tile(true);
    else
      plain_tile(false);
    return;
  }
  // Rolled up, from the rows as they lie in L1 by now: few tiles come here, unless sequences are short.
#pragma unroll
  for (int i = 0; i < before * n; ++i) history[i / n][i % n] = 0;
  auto const row = [&](int i) { return *reinterpret_cast<uint4 const*>(x + i * a.x.strides.time); };
  int const first = begin < before ? int(before - begin) : 0;
  uint4 next = row(first);
#pragma unroll 1
  for (int i = first; i < before + left; ++i) {
    uint4 const present = next;
    if (i + 1 < before + left) next = row(i + 1);
    if (marks.starts >> i & 1) {
#pragma unroll
      for (int j = 0; j < before * n; ++j) history[j / n][j % n] = 0;
      if (a.initial_state.data)
        thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype,
                                                {0, marks.warp_sequence(i)}, b, c, begin + i - before, history);
    }
    float z[n];
    convolve(present, z);
    if (i < before) continue;
    finish(silu, z);
    if (!(marks.live >> i & 1))
#pragma unroll
      for (int k = 0; k < n; ++k) z[k] = 0;
    store(z);
  }
}

}  // namespace faltung::causal_conv1d::cuda
