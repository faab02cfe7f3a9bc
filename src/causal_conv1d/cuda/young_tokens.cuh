// z of neighbouring tokens of one channel, some of whose windows reach before their runs or which are in no run.
#pragma once
#include "causal_conv1d/cuda/share_marks.cuh"

namespace faltung::causal_conv1d::cuda {

// Tokens t .. t + Count - 1 of a row. dead[d - 1] >> k & 1: a tap `d` tokens before token k is not in its run.
template <int Width, int Count>
struct YoungTokens {
  static constexpr int before = Width - 1;
  unsigned starts;  // bit before - 1 + k: token k is the first of a run
  unsigned live;    // bit k: token k is in a run
  unsigned dead[before];

  template <int n>
  __device__ YoungTokens(ShareMarks<n> const& marks, int at) {
    starts = marks.starts_from(at - before + 1) & ((1u << (before - 1 + Count)) - 1);
    live = marks.live_from(at);
    dead[0] = starts >> (before - 1);
#pragma unroll
    for (int d = 2; d <= before; ++d) dead[d - 1] = dead[d - 2] | starts >> (before - d);
  }
  __device__ bool reaches(int k, int distance) const { return distance == 0 || !(dead[distance - 1] >> k & 1); }

  // body(position of a run's first token, its initial state), oldest first; for each whose state some window meets.
  template <typename Body>
  __device__ void for_each_state(Cut const& cut, ConstState const& state, Dtype dtype, std::int64_t row, std::int64_t c,
                                 std::int64_t t, Body&& body) const {
    if (!state.data) return;
#pragma unroll 1
    for (unsigned left = starts; left; left &= left - 1) {
      int const position = __ffs(left) - before;
      auto const place = thread_place(cut, row, t + position, 0);
      if (place.age != 0) continue;  // in no run, or cu_seqlens is out of order
      float history[before];
#pragma unroll
      for (int m = 0; m < before; ++m)
        history[m] = place.state < 0 ? 0.0f
                                     : thread_load<float>(state.data, dtype,
                                                          offset(state, place.state, c, state.columns - before + m));
      body(position, history);
    }
  }
};

// tokens: Count + W-1 of them or more, from W-1 before the first one on.
template <int Width, int Count, int Tokens>
__device__ __forceinline__ void thread_convolve_young(YoungTokens<Width, Count> const& young,
                                                      float const (&tokens)[Tokens], float const (&weights)[Width],
                                                      float bias, Cut const& cut, ConstState const& state, Dtype dtype,
                                                      std::int64_t row, std::int64_t c, std::int64_t t,
                                                      float (&z)[Count]) {
  constexpr int before = Width - 1;
#pragma unroll
  for (int k = 0; k < Count; ++k) z[k] = bias;
#pragma unroll
  for (int j = 0; j < Width; ++j)
#pragma unroll
    for (int k = 0; k < Count; ++k) z[k] = fma(weights[j], young.reaches(k, before - j) ? tokens[j + k] : 0.0f, z[k]);
  young.for_each_state(cut, state, dtype, row, c, t, [&](int position, float const(&history)[before]) {
    float window[before + Count];
#pragma unroll
    for (int i = 0; i < before + Count; ++i) {
      window[i] = tokens[i];
#pragma unroll
      for (int m = 0; m < before; ++m)
        if (i - m == position) window[i] = history[m];
    }
    // What follows the next run's first token is computed again with that run's state.
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      float sum = bias;
#pragma unroll
      for (int j = 0; j < Width; ++j) sum = fma(weights[j], window[j + k], sum);
      if (k >= position) z[k] = sum;
    }
  });
}

}  // namespace faltung::causal_conv1d::cuda
