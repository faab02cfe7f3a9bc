// Where runs start along a row, found by a warp together: one load covers 32 boundaries of a packed row, or 32 labels.
#pragma once
#include "causal_conv1d/cuda/sequences.cuh"

namespace faltung::causal_conv1d::cuda {

// Of up to 32 neighbouring tokens: bit i is that of token t + i.
struct Marks {
  unsigned starts, live;  // the first of a run; in a run
};

// Walks along a row from some token on. All lanes hold the same, but for `sequence`.
class Marker {
 public:
  __device__ Marker(Cut const& cut, std::int64_t row, std::int64_t t)
      : cut_(cut), row_(row), first_(0), last_(cut.time) {
    if (cut.kind == Sequences::packed) {
      first_ = thread_read(cut.index, cut.dtype, 0);
      last_ = thread_read(cut.index, cut.dtype, cut.sequences);
      next_ = thread_search(cut, t - 1) + 1;
    } else if (cut.kind == Sequences::padded) {
      last_ = clamp(thread_read(cut.index, cut.dtype, row), 0, cut.time);
    }
  }

  // Tokens below this one, from the last marked one on, are no starts and like that one.
  __device__ std::int64_t known() const { return known_; }

  // Of tokens t .. t + count - 1, which follow those marked before. Lane i learns the sequence whose state precedes the
  // run that token t + i starts.
  __device__ Marks warp_mark(std::int64_t t, int count, std::int64_t& sequence) {
    int const lane = threadIdx.x % 32;
    std::int64_t const at = t + lane;
    bool const there = lane < count && at < cut_.time;
    sequence = -1;
    if (cut_.kind == Sequences::labelled) {
      std::int32_t const label = there ? thread_label(cut_, row_, at) : -1;
      bool const start = label >= 0 && (at == 0 || thread_label(cut_, row_, at - 1) != label);
      if (cut_.edges && cut_.edges[row_].first == at) sequence = row_;
      known_ = t;
      return {__ballot_sync(~0u, start), __ballot_sync(~0u, label >= 0)};
    }
    unsigned const live = __ballot_sync(~0u, there && at >= first_ && at < last_);
    if (cut_.kind != Sequences::packed) {
      if (at == 0) sequence = row_;
      known_ = t < last_ ? last_ : cut_.time;
      return {t == 0 ? live & 1u : 0u, live};
    }
    unsigned starts = 0;
    for (;;) {
      std::int64_t const n = next_ + lane,
                         boundary = n <= cut_.sequences ? thread_read(cut_.index, cut_.dtype, n) : INT64_MAX;
      bool const passed = boundary < t + count;
      unsigned const bits = __reduce_or_sync(~0u, passed && boundary >= t ? 1u << (boundary - t) : 0u);
      // Empty sequences start where the next one does: the last of them counts.
      for (unsigned rest = bits; rest; rest &= rest - 1) {
        int const i = __ffs(int(rest)) - 1;
        unsigned const who = __ballot_sync(~0u, passed && boundary == t + i);
        if (lane == i) sequence = next_ + 31 - __clz(int(who));
      }
      starts |= bits;
      int const behind = __popc(__ballot_sync(~0u, passed));
      known_ = __shfl_sync(~0u, boundary, behind % 32);
      next_ += behind;
      if (behind < 32) break;
    }
    known_ = known_ < cut_.time ? known_ : cut_.time;
    return {starts & live, live};
  }

 private:
  Cut const& cut_;
  std::int64_t row_, first_, last_;
  std::int64_t next_ = 0, known_ = 0;
};

}  // namespace faltung::causal_conv1d::cuda
