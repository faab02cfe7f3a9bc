// Where runs start within a block's share of a row of tokens, and which of its vectors of tokens that concerns: for the
// kernels whose lanes hold neighbouring tokens. The loops over a share take every window to lie in one run; what the
// marks name is computed anew by young_tokens.cuh.
#pragma once
#include "causal_conv1d/cuda/vector.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int marked_steps = 32;  // of a warp along its share, at most

// n: tokens of a vector, 32 of which are a step. Bit 32 + i of `starts` and `live` is token i of the share; one word
// more on either side.
template <int n>
struct ShareMarks {
  static constexpr int vectors = 32 * marked_steps, words = vectors * n / 32 + 2;
  // Vectors of a step, a bit each. Young: it holds a token in no run, or one whose window reaches before its run.
  // Touched: what is computed for it depends on such a token.
  struct Step {
    unsigned young, touched;
  };
  Step steps[marked_steps];
  unsigned starts[words], live[words];
  int before[marked_steps];     // touched vectors of the steps before
  int count;                    // of all
  int first, last;              // of the tokens in a run, as bits
  std::int64_t next;            // the first boundary that may be in the share
  std::uint16_t list[vectors];  // the touched vectors

  // 32 bits from token `at` of the share on.
  __device__ unsigned starts_from(int at) const { return window(starts, at); }
  __device__ unsigned live_from(int at) const { return window(live, at); }
  // Where they are many, the share is computed as young as a whole.
  __device__ bool all_young(int tokens) const { return count * 4 > tokens / n; }

 private:
  __device__ static unsigned window(unsigned const (&bits)[words], int at) {
    int const word = (at + 32) / 32;
    return __funnelshift_r(bits[word], bits[word + 1 < words ? word + 1 : word], (at + 32) % 32);
  }
};

// thread_search by a warp, all lanes probing at once.
__device__ __forceinline__ std::int64_t warp_search(Cut const& cut, std::int64_t t) {
  int const lane = threadIdx.x % 32;
  std::int64_t low = 0, high = cut.sequences + 1;  // the answer + 1 lies in [low, high]
  while (low < high) {
    std::int64_t const width = (high - low + 31) / 32, probe = low + (lane + 1) * width - 1;
    bool const passed = probe < high && thread_read(cut.index, cut.dtype, probe) <= t;
    low += __popc(__ballot_sync(~0u, passed)) * width;
    high = low + width - 1 < high ? low + width - 1 : high;
  }
  return low - 1;
}

// Who marks a share: all warps of a block, or one of them while the others walk.
struct Crew {
  int warp, warps;
  __device__ void sync() const {
    if (warps > 1)
      __syncthreads();
    else
      __syncwarp();
  }
};

// The share of `count` tokens from token `begin` of a row on. A vector is touched by tokens up to `behind` after it,
// W-1 at most.
template <int n, int before, int behind>
__device__ void crew_mark(Crew const& crew, Cut const& cut, std::int64_t row, std::int64_t begin, int count,
                          ShareMarks<n>& marks) {
  int const lane = threadIdx.x % 32, warp = crew.warp, warps = crew.warps, thread = warp * 32 + lane,
            threads = warps * 32;
  int const words = (count + 31) / 32 + 2, bits = words * 32;
  std::int64_t const base = begin - 32;  // token of bit 0
  auto const bit_of = [&](std::int64_t t) { return int(clamp(t - base, -1, bits)); };
  crew.sync();  // the marks of a share before are no longer read
  if (cut.kind == Sequences::labelled) {
    for (int w = warp; w < words; w += warps) {
      std::int64_t const t = base + w * 32 + lane;
      bool const inside = t >= 0 && t < cut.time;
      std::int32_t const label = inside ? thread_label(cut, row, t) : -1;
      bool const start = label >= 0 && (t == 0 || thread_label(cut, row, t - 1) != label);
      unsigned const starts = __ballot_sync(~0u, start), live = __ballot_sync(~0u, label >= 0 || !inside);
      if (lane == 0) marks.starts[w] = starts, marks.live[w] = live;
    }
  } else {
    bool const packed = cut.kind == Sequences::packed;
    if (warp == 0) {
      std::int64_t const last = thread_read(cut.index, cut.dtype, packed ? cut.sequences : row);
      std::int64_t const first = packed ? thread_read(cut.index, cut.dtype, 0) : 0,
                         next = packed ? warp_search(cut, base - 1) + 1 : 0;
      if (lane == 0) marks.first = bit_of(first), marks.last = bit_of(last), marks.next = next;
    }
    int const row_start = bit_of(0), row_end = bit_of(cut.time);
    for (int w = thread; w < words; w += threads)
      marks.starts[w] = !packed && row_start / 32 == w && row_start >= 0 ? 1u << row_start % 32 : 0u;
    crew.sync();
    auto const below = [](int bit) { return bit <= 0 ? 0u : bit < 32 ? (1u << bit) - 1 : ~0u; };
    for (int w = thread; w < words; w += threads)  // what is beyond the row counts as live
      marks.live[w] = (below(marks.last - w * 32) & ~below(marks.first - w * 32)) | ~below(row_end - w * 32);
    constexpr int ahead = 4;  // boundaries that a thread asks for at once
    int found[ahead] = {};
    if (packed)
      for (std::int64_t at = marks.next + thread; at <= cut.sequences && found[0] < bits; at += ahead * threads) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
          std::int64_t const n_th = at + i * threads;
          found[i] = n_th <= cut.sequences ? bit_of(thread_read(cut.index, cut.dtype, n_th)) : bits;
        }
#pragma unroll
        for (int i = 0; i < ahead; ++i)
          if (found[i] >= 0 && found[i] < bits) atomicOr(&marks.starts[found[i] / 32], 1u << found[i] % 32);
      }
  }
  crew.sync();
  int const steps = (count + 32 * n - 1) / (32 * n);
  constexpr int reach = n + behind;  // tokens that a vector looks at
  for (int step = warp; step < steps; step += warps) {
    int const at = (step * 32 + lane) * n;
    unsigned tokens = 0;  // that are young or in no run
    if (at < count) {
      unsigned const starts = marks.starts_from(at - before + 1);
      tokens = ~marks.live_from(at);
#pragma unroll
      for (int distance = 0; distance < before; ++distance) tokens |= starts >> distance;
    }
    unsigned const young = __ballot_sync(~0u, (tokens & ((1u << n) - 1)) != 0),
                   touched = behind ? __ballot_sync(~0u, (tokens & ((1u << reach) - 1)) != 0) : young;
    if (lane == 0) marks.steps[step] = {young, touched};
  }
  crew.sync();
  if (warp == 0) {
    int const mine = lane < steps ? __popc(marks.steps[lane].touched) : 0;
    int sum = mine;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      int const below = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += below;
    }
    marks.before[lane] = sum - mine;
    if (lane == 31) marks.count = sum;
  }
  crew.sync();
  for (int step = warp; step < steps; step += warps)
    if (unsigned const touched = marks.steps[step].touched; touched >> lane & 1)
      marks.list[marks.before[step] + __popc(touched & ((1u << lane) - 1))] = std::uint16_t(step * 32 + lane);
  crew.sync();
}

}  // namespace faltung::causal_conv1d::cuda
