// Where a token stands in its sequence, read from the index tensors on the device. Their content is not trusted:
// whatever it is, runs lie inside x.
#pragma once
#include "causal_conv1d/cuda/cut.hpp"

namespace faltung::causal_conv1d::cuda {

// How many tokens of its run precede a token, at least up to the limit that the asker gave; -1: the token is in no run.
// The sequence whose initial state precedes the run; -1: zeros do.
struct Place {
  std::int64_t age, state;
};

// The tokens [begin, end) of a row; `state` as in Place.
struct Run {
  std::int64_t row, begin, end, state;
};

__device__ __forceinline__ std::int64_t thread_read(Index const& index, Dtype dtype, std::int64_t at) {
  if (dtype == FALTUNG_I64) return static_cast<std::int64_t const*>(index.data)[at * index.stride];
  return static_cast<std::int32_t const*>(index.data)[at * index.stride];
}

__device__ __forceinline__ std::int64_t clamp(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// The last n with starts[n] <= t, of n in [0, sequences]; -1 where there is none. Any n for content out of order.
__device__ __forceinline__ std::int64_t thread_search(Cut const& cut, std::int64_t t) {
  std::int64_t low = 0, high = cut.sequences + 1;  // the answer + 1 lies in [low, high]
  while (low < high) {
    std::int64_t const middle = (low + high) / 2;
    if (thread_read(cut.index, cut.dtype, middle) <= t)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}

__device__ __forceinline__ std::int32_t thread_label(Cut const& cut, std::int64_t row, std::int64_t t) {
  return static_cast<std::int32_t const*>(cut.index.data)[row * cut.index.batch + t * cut.index.stride];
}

__device__ inline Place thread_place(Cut const& cut, std::int64_t row, std::int64_t t, std::int64_t limit) {
  switch (cut.kind) {
    case Sequences::whole:
      return {t, row};
    case Sequences::padded:
      return {t < thread_read(cut.index, cut.dtype, row) ? t : -1, row};
    case Sequences::packed: {
      std::int64_t const n = thread_search(cut, t);
      if (n < 0 || n >= cut.sequences || thread_read(cut.index, cut.dtype, n + 1) <= t) return {-1, -1};
      return {t - clamp(thread_read(cut.index, cut.dtype, n), 0, t), n};
    }
    case Sequences::labelled:
      break;
  }
  std::int32_t const label = thread_label(cut, row, t);
  if (label < 0) return {-1, -1};
  std::int64_t age = 0;
  while (age < limit && age < t && thread_label(cut, row, t - age - 1) == label) ++age;
  return {age, cut.edges && cut.edges[row].first == t - age ? row : -1};
}

// The run of sequence n that follows its initial state. Of a labelled row at most `limit` tokens of it.
__device__ inline Run thread_first_run(Cut const& cut, std::int64_t n, std::int64_t limit) {
  switch (cut.kind) {
    case Sequences::whole:
      return {n, 0, cut.time, n};
    case Sequences::padded:
      return {n, 0, clamp(thread_read(cut.index, cut.dtype, n), 0, cut.time), n};
    case Sequences::packed: {
      std::int64_t const begin = clamp(thread_read(cut.index, cut.dtype, n), 0, cut.time);
      return {0, begin, clamp(thread_read(cut.index, cut.dtype, n + 1), begin, cut.time), n};
    }
    case Sequences::labelled:
      break;
  }
  std::int64_t const begin = cut.edges[n].first;
  if (begin >= cut.time) return {n, 0, 0, n};
  std::int64_t end = begin + 1;
  while (end < cut.time && end - begin < limit && thread_label(cut, n, end) == thread_label(cut, n, begin)) ++end;
  return {n, begin, end, n};
}

// The run that the final state of sequence n is taken from. Of a labelled row at most the last `limit` tokens of it.
__device__ inline Run thread_last_run(Cut const& cut, std::int64_t n, std::int64_t limit) {
  if (cut.kind != Sequences::labelled) return thread_first_run(cut, n, limit);
  std::int64_t const end = cut.edges[n].last;
  if (end <= 0) return {n, 0, 0, n};
  std::int64_t begin = end - 1;
  while (begin > 0 && end - begin < limit && thread_label(cut, n, begin - 1) == thread_label(cut, n, end - 1)) --begin;
  return {n, begin, end, begin == cut.edges[n].first ? n : -1};
}

// The sequence in whose final state of `columns` columns token t is, and how far from its end (1: the last token); 0
// where in none.
struct FromEnd {
  std::int64_t sequence, distance;
};
__device__ inline FromEnd thread_from_end(Cut const& cut, std::int64_t row, std::int64_t t, std::int64_t state,
                                          std::int64_t columns) {
  std::int64_t end = cut.time;
  switch (cut.kind) {
    case Sequences::whole:
      break;
    case Sequences::padded:
      end = clamp(thread_read(cut.index, cut.dtype, row), 0, cut.time);
      break;
    case Sequences::packed:
      if (state < 0) return {-1, 0};
      end = clamp(thread_read(cut.index, cut.dtype, state + 1), 0, cut.time);
      break;
    case Sequences::labelled:
      end = cut.edges[row].last;
      if (t >= end || end - t > columns) return {-1, 0};
      for (std::int64_t i = t + 1; i < end; ++i)
        if (thread_label(cut, row, i) != thread_label(cut, row, t)) return {-1, 0};
      return {row, end - t};
  }
  std::int64_t const distance = end - t;
  if (distance < 1 || distance > columns) return {-1, 0};
  return {cut.kind == Sequences::packed ? state : row, distance};
}

}  // namespace faltung::causal_conv1d::cuda
