// Where runs start within a step of a warp along one row, as bits in shared memory: for the kernels whose lanes hold
// neighbouring tokens.
#pragma once
#include "causal_conv1d/cuda/vector.cuh"

namespace faltung::causal_conv1d::cuda {

// Where a lane's tokens stand: four bits each, 0 in no run, else 1 + the tokens of the run before it, at most Before.
template <int Count, int Before>
struct Ages {
  static_assert(Count <= 8 && Before < 15);
  static constexpr unsigned plain = unsigned(0x11111111) * (Before + 1) >>
                                    (32 - 4 * Count);  // in a run, no tap before it
  unsigned bits = plain;
  __device__ int of(int k) const { return int(bits >> (4 * k) & 15) - 1; }
};

// Bit 32 + i is token i of the step; the first word is that of the 32 tokens before, of which the last few matter.
template <int tokens>
struct StepBits {
  unsigned starts[tokens / 32 + 2], live[tokens / 32 + 2];
};

enum class Walk { up, down };

// All lanes hold the same.
template <int tokens, Walk walk>
class StepMarker {
 public:
  // `start`: of the first step.
  __device__ StepMarker(Cut const& cut, std::int64_t row, std::int64_t start, StepBits<tokens>& bits)
      : cut_(cut), bits_(bits), row_(row), first_(0), last_(cut.time) {
    if (cut.kind == Sequences::packed) {
      first_ = thread_read(cut.index, cut.dtype, 0);
      last_ = thread_read(cut.index, cut.dtype, cut.sequences);
      next_ = thread_search(cut, walk == Walk::up ? start - 33 : start + tokens - 1) + 1;
    } else if (cut.kind == Sequences::padded) {
      last_ = clamp(thread_read(cut.index, cut.dtype, row), 0, cut.time);
    }
  }

  // Whether all tokens of the next step are in one run that begins `before` tokens or more before it: nothing to be
  // marked.
  __device__ bool is_plain(std::int64_t start, int before) const {
    return clear_ && start >= first_ && start + tokens <= last_ &&
           (walk == Walk::up ? start + tokens <= other_ : start >= other_ + before);
  }

  // Marks a step that follows the last one marked, perhaps not at once.
  __device__ void warp_mark(std::int64_t start) {
    constexpr int words = tokens / 32 + 1;
    int const lane = threadIdx.x % 32;
    __syncwarp();
    if (cut_.kind == Sequences::labelled) {
      for (int w = 0; w < words; ++w) {
        std::int64_t const t = start + (w - 1) * 32 + lane;
        std::int32_t const label = t >= 0 && t < cut_.time ? thread_label(cut_, row_, t) : -1;
        unsigned const starts = __ballot_sync(~0u, label >= 0 && (t == 0 || thread_label(cut_, row_, t - 1) != label)),
                       live = __ballot_sync(~0u, label >= 0);
        if (lane == 0) {
          bits_.starts[w] = starts;
          bits_.live[w] = live;
        }
      }
      __syncwarp();
      return;
    }
    if (lane < words) {
      std::int64_t const t = start + (lane - 1) * 32;  // of bit 0
      std::int64_t const from = clamp(first_ - t, 0, 32), to = clamp(last_ - t, 0, 32);
      bits_.live[lane] = to > from ? (~0u >> (32 - to)) & (~0u << from) : 0u;
      bits_.starts[lane] = cut_.kind != Sequences::packed && t <= 0 && t + 32 > 0 ? 1u << -t : 0u;
    }
    __syncwarp();
    other_ = walk == Walk::up ? INT64_MAX : start - 32 > 0 ? 0 : INT64_MIN / 2;
    if (cut_.kind == Sequences::packed) mark_boundaries(start);
    __syncwarp();
    // No run starts in the words that lie beside the step to come.
    clear_ = bits_.starts[walk == Walk::up ? words - 1 : 0] == 0;
  }

  template <int Count, int Before>
  __device__ Ages<Count, Before> thread_ages() const {
    int const position = 32 + int(threadIdx.x % 32) * Count - Before, word = position / 32;
    unsigned const starts = __funnelshift_r(bits_.starts[word], bits_.starts[word + 1], position % 32);
    unsigned const live = __funnelshift_r(bits_.live[word], bits_.live[word + 1], position % 32) >> Before;
    Ages<Count, Before> ages;
    if (!(starts >> 1 & ((1u << (Count + Before - 1)) - 1)) && (live & ((1u << Count) - 1)) == (1u << Count) - 1)
      return ages;
    ages.bits = 0;
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      int age = Before;
#pragma unroll
      for (int back = Before - 1; back >= 0; --back)
        if (starts >> (Before + k - back) & 1) age = back;
      ages.bits |= (live >> k & 1 ? unsigned(age + 1) : 0u) << (4 * k);
    }
    return ages;
  }

 private:
  __device__ void mark_boundaries(std::int64_t start) {
    int const lane = threadIdx.x % 32;
    std::int64_t const end = start + tokens;
    std::int64_t skipped = 0;
    for (int count = 32, done = 0; count == 32;) {
      // Going up: the boundaries from 32 tokens before the step on; going down: those before its end, backwards.
      std::int64_t const n = walk == Walk::up ? next_ + done + lane : next_ - 1 - done - lane;
      std::int64_t boundary = walk == Walk::up ? INT64_MAX : INT64_MIN / 2;
      if (n >= 0 && n <= cut_.sequences) boundary = thread_read(cut_.index, cut_.dtype, n);
      bool const passed = walk == Walk::up ? boundary < end : boundary >= start - 32;
      if (passed && boundary >= start - 32 && boundary < end) {
        int const bit = int(boundary - (start - 32));
        atomicOr(&bits_.starts[bit / 32], 1u << bit % 32);
      }
      count = __popc(__ballot_sync(~0u, passed));
      done += count;
      // Those that the next step meets again stay ahead.
      int const over = __popc(__ballot_sync(~0u, walk == Walk::up ? boundary < end - 32 : boundary >= start));
      skipped += over;
      if (count < 32) other_ = __shfl_sync(~0u, boundary, count);
    }
    next_ += walk == Walk::up ? skipped : -skipped;
  }

  Cut const& cut_;
  StepBits<tokens>& bits_;
  std::int64_t row_, first_, last_;
  std::int64_t next_ = 0;   // of the boundaries
  std::int64_t other_ = 0;  // the boundary beyond those marked last
  bool clear_ = false;
};

// What the taps of tokens t .. t + Count - 1 meet where some of them are young: windows[k][j]. Out of line and rolled
// up: few lanes come here, and the way of the others must stay short.
template <typename Storage, int Width, int Count>
__device__ __noinline__ void thread_windows(Cut const& cut, ConstView const& x, ConstState const& state,
                                            Dtype state_dtype, std::int64_t row, std::int64_t c, std::int64_t t,
                                            Ages<Count, Width - 1> ages, float* windows) {
  auto const from = static_cast<Storage const*>(x.data) + offset(x.strides, row, c, t);
#pragma unroll 1
  for (int k = 0; k < Count; ++k) {
    int const age = ages.of(k);
#pragma unroll 1
    for (int j = 0; j < Width; ++j) {
      int const distance = Width - 1 - j;
      windows[k * Width + j] = distance <= age ? widen(from[k - distance])
                               : age < 0       ? 0.0f
                                               : thread_state(cut, state, state_dtype, row, c, t + k, distance);
    }
  }
}

}  // namespace faltung::causal_conv1d::cuda
