// What the CPU drivers share: where the elements of a call lie, tokens with the history before them, the work cut into
// blocks.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "causal_conv1d/cpu/kernels.hpp"
#include "causal_conv1d/cpu/runs.hpp"

namespace faltung::causal_conv1d::cpu {

inline Dtype real_of(Dtype x) { return x == FALTUNG_F64 ? FALTUNG_F64 : FALTUNG_F32; }

template <typename Pointer>
Pointer* element(Pointer* base, std::int64_t at, std::int64_t size) {
  using Byte = std::conditional_t<std::is_const_v<Pointer>, std::byte const, std::byte>;
  return base ? static_cast<Byte*>(base) + at * size : nullptr;
}

inline std::int64_t offset(Strides const& s, std::int64_t b, std::int64_t c, std::int64_t t) {
  return b * s.batch + c * s.channel + t * s.time;
}
inline std::int64_t offset(ConstState const& s, std::int64_t n, std::int64_t c, std::int64_t column) {
  return n * s.sequence + c * s.channel + column * s.column;
}

// Elements of `size` bytes, bit for bit.
void copy_elements(std::int64_t size, void const* from, std::int64_t from_stride, void* to, std::int64_t to_stride,
                   std::int64_t count);
void zero_elements(std::int64_t size, void* to, std::int64_t stride, std::int64_t count);
// The same bits where the dtypes are equal, else one rounding.
void convert_elements(Dtype from_dtype, void const* from, std::int64_t from_stride, Dtype to_dtype, void* to,
                      std::int64_t to_stride, std::int64_t count);

// The axis that lies along the lanes.
enum class Lanes { time, channels };
Lanes lanes_of(Problem const&);

// Tokens of runs as Real, with the state or zeros before them.
struct Tokens {
  Problem const& p;
  ConstView x;
  ConstState state;
  Dtype real = real_of(p.x_dtype);
  void (*widen_x)(void const*, std::int64_t, void*, std::int64_t) = staging_kernels().widen(p.x_dtype, real);
  void (*widen_state)(void const*, std::int64_t, void*, std::int64_t) = staging_kernels().widen(p.state_dtype, real);

  // Tokens t .. t + count - 1 of channel c; t may lie up to W-1 before the run.
  void along_time(Run const& run, std::int64_t c, std::int64_t t, std::int64_t count, void* to) const;
  // Token t of channels c .. c + count - 1.
  void along_channels(Run const& run, std::int64_t c, std::int64_t t, std::int64_t count, void* to) const;
};

// weight and bias of channels c .. c + count - 1 as Real: weight [width, stride] (taps outermost), bias [stride]; zeros
// behind `count`.
void stage_parameters(Problem const&, ConstWeight const&, ConstBias const& bias, std::int64_t c, std::int64_t count,
                      std::int64_t stride, void* weight_to, void* bias_to);

// The rows and tokens of a call in blocks of about `tokens` tokens: several short rows, or a part of a long one.
struct Blocks {
  std::int64_t rows, length;  // of a block
  std::int64_t row_blocks, time_blocks;
  Blocks(Problem const& p, std::int64_t tokens)
      : rows(std::max<std::int64_t>(1, tokens / std::max<std::int64_t>(1, p.time))),
        length(tokens),
        row_blocks(p.batch / rows + (p.batch % rows != 0)),
        time_blocks(p.time / length + (p.time % length != 0)) {}
  std::int64_t count() const { return row_blocks * time_blocks; }
};

// on_run(run, begin, end) for each stretch of a run in the block and on_gap(row, begin, end) for tokens of no run, in
// order.
template <typename OnRun, typename OnGap>
void for_each_piece(Problem const& p, Runs const& runs, Blocks const& blocks, std::int64_t block, OnRun&& on_run,
                    OnGap&& on_gap) {
  auto const row_begin = block / blocks.time_blocks * blocks.rows, row_end = std::min(p.batch, row_begin + blocks.rows);
  auto const begin = block % blocks.time_blocks * blocks.length, end = std::min(p.time, begin + blocks.length);
  auto next = std::partition_point(runs.all.begin(), runs.all.end(), [&](Run const& r) {
    return r.row < row_begin || (r.row == row_begin && r.end <= begin);
  });
  for (auto row = row_begin; row < row_end; ++row) {
    auto at = begin;
    while (next != runs.all.end() && (next->row < row || (next->row == row && next->end <= at))) ++next;
    for (auto run = next; run != runs.all.end() && run->row == row && run->begin < end; ++run) {
      if (run->begin > at) on_gap(row, at, run->begin);
      on_run(*run, std::max(at, run->begin), std::min(end, run->end));
      at = std::min(end, run->end);
    }
    if (at < end) on_gap(row, at, end);
  }
}

}  // namespace faltung::causal_conv1d::cpu
