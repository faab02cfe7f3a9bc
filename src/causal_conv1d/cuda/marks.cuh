// Where runs start among 32 neighbouring tokens of a row, found by a warp together: one load covers 32 boundaries of a
// packed row, or 32 labels.
#pragma once
#include "causal_conv1d/cuda/sequences.cuh"

namespace faltung::causal_conv1d::cuda {

// Bit i is that of token t + i. All lanes hold the same, but for `sequence`: lane i holds the sequence whose state
// precedes the run that token t + i starts; -1: zeros do, or nobody asked.
struct Marks {
  unsigned starts, live;  // the first of a run; in a run
  std::int64_t sequence;

  __device__ __forceinline__ std::int64_t warp_sequence(int i) const { return __shfl_sync(~0u, sequence, i); }
  // Of token t + i, looking no further back than to token t.
  __device__ __forceinline__ Place warp_place(int i) const {
    if (!(live >> i & 1)) return {-1, -1};
    unsigned const before = starts & ((2u << i) - 1);
    if (!before) return {i, -1};
    int const start = 31 - __clz(int(before));
    return {i - start, warp_sequence(start)};
  }
};

// t may be negative: such tokens are in no run. `states`: sequences are asked for.
__device__ inline Marks warp_marks(Cut const& cut, std::int64_t row, std::int64_t t, bool states) {
  int const lane = threadIdx.x % 32;
  std::int64_t const at = t + lane;
  auto const ballot = [](bool value) { return __ballot_sync(~0u, value); };
  switch (cut.kind) {
    case Sequences::whole:
      return {ballot(at == 0), ballot(at >= 0 && at < cut.time), row};
    case Sequences::padded: {
      std::int64_t const length = thread_read(cut.index, cut.dtype, row);
      return {ballot(at == 0 && length > 0), ballot(at >= 0 && at < length), row};
    }
    case Sequences::labelled: {
      std::int32_t const label = at >= 0 && at < cut.time ? thread_label(cut, row, at) : -1;
      std::int32_t before = __shfl_up_sync(~0u, label, 1);
      if (lane == 0) before = at > 0 && at <= cut.time ? thread_label(cut, row, at - 1) : -1;
      return {ballot(label >= 0 && label != before), ballot(label >= 0),
              states && cut.edges[row].first == at ? row : -1};
    }
    case Sequences::packed:
      break;
  }
  std::int64_t const begin = thread_read(cut.index, cut.dtype, 0),
                     end = thread_read(cut.index, cut.dtype, cut.sequences);
  // The first boundary from t on is one of `first` .. `beyond` - 1, or `beyond`.
  std::int64_t first = 0, beyond = cut.sequences + 1;
  while (beyond - first > 32) {
    std::int64_t const step = (beyond - first + 31) / 32, n = first + lane * step;
    int const passed = __popc(ballot(n < beyond && thread_read(cut.index, cut.dtype, n) < t));
    if (passed) first += (passed - 1) * step;
    beyond = first + step < beyond ? first + step : beyond;
  }
  unsigned starts = 0;
  std::int64_t sequence = -1;
  for (unsigned passed = ~0u; passed == ~0u; first += 32) {
    std::int64_t const n = first + lane,
                       boundary = n <= cut.sequences ? thread_read(cut.index, cut.dtype, n) : INT64_MAX;
    unsigned const bit = boundary >= t && boundary < t + 32 ? 1u << (boundary - t) : 0u,
                   bits = __reduce_or_sync(~0u, bit);
    if (states)  // empty sequences start where the next one does: the last of them counts
      for (unsigned rest = bits; rest; rest &= rest - 1) {
        unsigned const who = ballot(bit == (rest & -rest));
        if (lane == __ffs(int(rest)) - 1) sequence = first + 31 - __clz(int(who));
      }
    starts |= bits;
    passed = ballot(boundary < t + 32);
  }
  unsigned const live = ballot(at >= begin && at < end && at < cut.time);
  return {starts & live, live, sequence};
}

}  // namespace faltung::causal_conv1d::cuda
