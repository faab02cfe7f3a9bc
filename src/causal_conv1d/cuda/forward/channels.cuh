// Forward where channels lie side by side ([B, T, D]): a thread owns four channels and walks along the tokens of its
// share, the last W-1 in registers, the next `group` of them on their way: a batch is waited for as one, while loads
// one by one would share too few scoreboards.
#pragma once
#include "causal_conv1d/cuda/marks.cuh"
#include "causal_conv1d/cuda/vector.cuh"
#include "cuda/grid.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int channels_forward_threads = 128;
template <typename Storage, bool cuts>  // of a multiprocessor, by the registers that they need
inline constexpr int channels_forward_blocks = (sizeof(Storage) == 2 ? 6 : 5) - cuts;

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
__global__ __launch_bounds__(
    channels_forward_threads,
    channels_forward_blocks<Storage, cuts>) void forward_channels_kernel(__grid_constant__ ChannelsForward const call) {
  constexpr int n = channels_elements, before = Width - 1, group = 4, groups = 3;
  using Words = Words<Storage, n>;
  auto const& p = call.problem;
  auto const& a = call.args;
  std::int64_t const block = blockIdx.x / call.side_by_side, column = blockIdx.x - block * call.side_by_side;
  std::int64_t const share = block * (channels_forward_threads / call.lanes) + threadIdx.x / call.lanes;
  std::int64_t const b = share / call.row_shares, begin = (share - b * call.row_shares) * call.share;
  std::int64_t c = (column * call.lanes + threadIdx.x % call.lanes) * n;
  bool const active = c < p.channels;  // the others follow, since warps vote, and store nothing
  if (!active) c = p.channels - n;
  if (b >= p.batch || begin >= p.time) return;  // whole warps
  faltung::cuda::grid_wait_for_predecessor();
  faltung::cuda::grid_release_successor();

  int const tokens = int(p.time - begin < call.share ? p.time - begin : call.share);
  int const x_pitch = int(a.x.strides.time), y_pitch = int(a.y.strides.time);  // fits_forward_channels() has looked
  auto const x = static_cast<Storage const*>(a.x.data) + offset(a.x.strides, b, c, begin);
  auto y = static_cast<Storage*>(a.y.data) + offset(a.y.strides, b, c, begin);
  auto const residual = a.residual.data
                            ? static_cast<Storage const*>(a.residual.data) + offset(a.residual.strides, b, c, begin)
                            : nullptr;
  __shared__ Words ring[groups][group][channels_forward_threads];  // a thread reads what it copied itself
  auto const copy = [&](int t, int slot) {
    if (t + group <= tokens) {
      auto const from = x + std::int64_t(t) * x_pitch;
#pragma unroll
      for (int i = 0; i < group; ++i) thread_copy_words(&ring[slot][i][threadIdx.x], from + std::int64_t(i) * x_pitch);
    } else {
#pragma unroll
      for (int i = 0; i < group; ++i) {
        bool const there = t + i < tokens;
        thread_copy_words(&ring[slot][i][threadIdx.x], there ? x + std::int64_t(t + i) * x_pitch : x, there);
      }
    }
    thread_end_copies();
  };
#pragma unroll
  for (int i = 0; i < groups; ++i) copy(i * group, i);
  float weights[Width][n], bias[n], history[before][n];
  thread_load_weights<Storage, Width, n>(p, a.weight, c, weights);
  thread_load_bias<Storage, n>(p, a.bias, c, bias);
  auto const place = thread_place(call.cut, b, begin, before);
  thread_load_history<Storage, before, n>(a.x, a.initial_state, p.x_dtype, p.state_dtype, place, b, c, begin, history);

  int slot = 0;
  // The group of tokens t ... `plain`: it lies in the share, and no run starts or ends.
  auto const compute = [&]<bool plain>(int t, unsigned starts, unsigned live, std::int64_t sequence) {
    thread_wait_for_groups<groups - 1>();
    Words present[group];
#pragma unroll
    for (int i = 0; i < group; ++i) present[i] = ring[slot][i][threadIdx.x];
#pragma unroll
    for (int i = 0; i < group; ++i) {
      if (cuts && !plain && starts >> i & 1) {
        Place const at{0, __shfl_sync(~0u, sequence, i)};
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
      if (residual && (plain || t + i < tokens)) {
        float more[n];
        widen_words<Storage>(*reinterpret_cast<Words const*>(residual + (t + i) * a.residual.strides.time), more);
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = add(z[k], more[k]);
      }
      if (cuts && !plain && !(live >> i & 1))
#pragma unroll
        for (int k = 0; k < n; ++k) z[k] = 0;
      if (active && (plain || t + i < tokens))
        thread_store_words(y + std::int64_t(i) * y_pitch, narrow_words<Storage, Words>(z));
    }
    y += std::int64_t(group) * y_pitch;
    copy(t + groups * group, slot);
    slot = slot + 1 < groups ? slot + 1 : 0;
  };

  Marker marker(call.cut, b, begin);
  unsigned live = ~0u;  // of the group before, whose last token is like those that are known
  for (int t = 0; t < tokens; t += group) {
    bool const known = !cuts || begin + t + group <= marker.known();
    if (known && t + group <= tokens && (!cuts || live >> (group - 1))) {
      compute.template operator()<true>(t, 0, ~0u, -1);
      continue;
    }
    std::int64_t sequence = -1;
    Marks marks{0, live >> (group - 1) ? ~0u : 0u};
    if (!known) marks = marker.warp_mark(begin + t, group, sequence);
    live = marks.live & ((1u << group) - 1);
    compute.template operator()<false>(t, marks.starts, marks.live, sequence);
  }
}

}  // namespace faltung::causal_conv1d::cuda
