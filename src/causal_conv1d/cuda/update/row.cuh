// Which slots a row of an update reads and writes, and where its window lies.
#pragma once
#include "causal_conv1d/cuda/tensors.cuh"

namespace faltung::causal_conv1d::cuda {

// Slots; negative: none. One beyond the state is none.
struct Slots {
  std::int64_t source, destination;
};
__device__ __forceinline__ Slots thread_slots(UpdateArgs const& a, std::int64_t n) {
  std::int64_t const source = a.source.data ? thread_read(a.source, FALTUNG_I32, n) : n,
                     destination = a.destination.data ? thread_read(a.destination, FALTUNG_I32, n) : source;
  return {source < a.slots ? source : -1, destination < a.slots ? destination : -1};
}

// A remainder in [0, columns).
__device__ __forceinline__ std::int64_t wrapped(std::int64_t position, std::int64_t columns) {
  std::int64_t const rest = position % columns;
  return rest < 0 ? rest + columns : rest;
}

// What cpu/window.cpp plans with vectors, column by column.
struct RowUpdate {
  std::int64_t source, destination;  // slots; negative: none
  std::int64_t first, position, columns, tokens;
  int before;
  Window window;
  bool speculative;

  // Where the j-th of the W-1 tokens before the row's own lies in the source.
  __device__ std::int64_t history(std::int64_t j) const {
    return window == Window::ring ? wrapped(position - before + j, columns) : first + j;
  }
  // What goes into a column of the destination: a column of the source, columns + a token, or -1: it stays.
  __device__ std::int64_t next(std::int64_t column) const {
    std::int64_t const kept = destination == source ? -1 : column;
    if (tokens == 0) return kept;
    if (window == Window::ring) {
      std::int64_t const oldest = tokens > columns ? tokens - columns : 0,
                         token = oldest + wrapped(column - position - oldest, columns);
      return token < tokens ? columns + token : kept;
    }
    // The tail of the source's columns [first, last), then the tokens: the newest of them, or with num_accepted all but
    // the oldest.
    std::int64_t const start = window == Window::trailing ? 0 : first,
                       last = window == Window::trailing ? columns : first + before;
    std::int64_t const known = last - start + tokens;
    std::int64_t const written = window == Window::trailing      ? columns
                                 : !speculative                  ? before
                                 : before - 1 + tokens < columns ? before - 1 + tokens
                                                                 : columns;
    if (column >= written) return kept;
    std::int64_t const entry = (speculative ? 1 : known - written) + column;
    return entry < last - start ? start + entry : columns + entry - (last - start);
  }
};

__device__ inline RowUpdate thread_row(Problem const& p, UpdateArgs const& a, std::int64_t n, std::int64_t tokens) {
  auto const read = [&](Index const& index, std::int64_t otherwise) {
    return index.data ? thread_read(index, FALTUNG_I32, n) : otherwise;
  };
  auto const slots = thread_slots(a, n);
  RowUpdate row{};
  row.source = slots.source;
  row.destination = slots.destination;
  row.columns = a.state.columns;
  row.tokens = tokens;
  row.before = p.width - 1;
  row.window = p.window;
  row.speculative = a.accepted.data;
  row.position = read(a.position, 0);
  // Clamped: whatever num_accepted says, the window stays inside the buffer.
  row.first = p.window == Window::trailing ? row.columns - row.before
                                           : clamp(read(a.accepted, 1), 1, row.columns - row.before + 1) - 1;
  return row;
}

}  // namespace faltung::causal_conv1d::cuda
