// Update on the CPU: rows of the state and of x through the forward's kernel, then the state's columns move, bit for
// bit.
#include "causal_conv1d/cpu/channel_tile.hpp"
#include "causal_conv1d/cpu/simd.hpp"
#include "causal_conv1d/cpu/window.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

// The tokens of one row for the tile's channels.
void convolve_row(Problem const& p, UpdateArgs const& a, Run const& run, RowUpdate const& row, ChannelTile& tile,
                  std::int64_t c, std::int64_t channels) {
  auto const& tokens = tile.tokens();
  std::int64_t const before = p.width - 1;
  for (std::int64_t j = 0; j < before; ++j)
    tokens.widen_state(element(a.state.data, offset(a.state, row.source, c, row.history[j]), size_of(p.state_dtype)),
                       a.state.channel, tile.row(j), channels);
  for (auto t = run.begin; t < run.end;) {
    auto const count = std::min(tile.capacity(), run.end - t);
    for (std::int64_t i = 0; i < count; ++i) tokens.along_channels(run, c, t + i, channels, tile.row(before + i));
    tile.convolve(run.row, t, count, 0, channels);
    t += count;
    if (t < run.end && before > 0)  // the last tokens are the next ones' history; count >= before, so nothing overlaps
      std::memcpy(tile.row(0), tile.row(count),
                  static_cast<std::byte*>(tile.row(before)) - static_cast<std::byte*>(tile.row(0)));
  }
}

// Columns only move towards older places, so that ascending order reads each before it is overwritten.
void advance_state(Problem const& p, UpdateArgs const& a, Run const& run, RowUpdate const& row, std::int64_t c,
                   std::int64_t channels) {
  auto const size = size_of(p.state_dtype);
  for (std::int64_t i = 0; i < std::int64_t(row.next.size()); ++i) {
    auto const from = row.next[i];
    if (from < 0) continue;
    auto const target = element(a.state.data, offset(a.state, row.destination, c, i), size);
    if (from < a.state.columns)
      copy_elements(size, element(a.state.data, offset(a.state, row.source, c, from), size), a.state.channel, target,
                    a.state.channel, channels);
    else
      convert_elements(
          p.x_dtype,
          element(a.x.data, offset(a.x.strides, run.row, c, run.begin + from - a.state.columns), size_of(p.x_dtype)),
          a.x.strides.channel, p.state_dtype, target, a.state.channel, channels);
  }
}

void zero_tokens(Problem const& p, View const& y, std::int64_t row, std::int64_t begin, std::int64_t end,
                 std::int64_t c, std::int64_t channels) {
  auto const size = size_of(p.x_dtype);
  for (auto t = begin; t < end; ++t)
    zero_elements(size, element(y.data, offset(y.strides, row, c, t), size), y.strides.channel, channels);
}

}  // namespace

void update(Problem const& p, UpdateArgs const& a) {
  auto const runs = cut(p, a.cut, a.runtime.check);
  if (a.runtime.check) check_content(p, a, runs);
  auto const block = ChannelTile::block(p), channel_blocks = (p.channels + block - 1) / block;
  parallel_for(a.runtime.parallel, channel_blocks * p.sequences, [&](std::int64_t first, std::int64_t last) {
    ChannelTile tile(p, {a.x, {}, {}, a.y});
    RowUpdate row;
    for (auto item = first, staged = std::int64_t(-1); item < last; ++item) {
      auto const c = item / p.sequences * block, channels = std::min(block, p.channels - c), n = item % p.sequences;
      if (staged != c) tile.set_parameters(a.weight, a.bias, c, channels);
      staged = c;
      auto const& run = runs.first[n];
      plan_row(p, a, n, run.length(), row);
      if (row.source < 0) {
        zero_tokens(p, a.y, run.row, run.begin, run.end, c, channels);
        continue;
      }
      convolve_row(p, a, run, row, tile, c, channels);
      advance_state(p, a, run, row, c, channels);
    }
  });
  if (p.cut != Sequences::packed) return;
  std::int64_t at = 0;  // tokens before, behind and between the rows
  for (auto const& run : runs.first) {
    zero_tokens(p, a.y, 0, at, run.begin, 0, p.channels);
    at = std::max(at, run.end);
  }
  zero_tokens(p, a.y, 0, at, p.time, 0, p.channels);
}

}  // namespace faltung::causal_conv1d::cpu
