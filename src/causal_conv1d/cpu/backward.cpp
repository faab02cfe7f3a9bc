// Backward on the CPU. Each block of tokens computes dz for itself and for the W-1 tokens behind it, whose windows
// reach back into it; dx follows from dz, and a partial sum of dweight and dbias for each block and channel. Blocks
// depend on shapes alone, partial sums are added in their order: the same bits with any number of threads.
#include <vector>

#include "causal_conv1d/cpu/backward_tile.hpp"
#include "causal_conv1d/cpu/simd.hpp"
#include "causal_conv1d/cpu/states.hpp"
#include "causal_conv1d/cpu/tiles.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

bool wants_parameters(BackwardArgs const& a) { return a.dweight.data || a.dbias.data; }

// What the gaps between runs get, and dresidual.
struct Copies {
  Problem const& p;
  BackwardArgs const& a;
  std::int64_t size = size_of(p.x_dtype);

  void zero(View const& to, std::int64_t row, std::int64_t t, std::int64_t end, std::int64_t c,
            std::int64_t channels) const {
    if (!to.data) return;
    for (auto at = c; at < c + channels; ++at)
      zero_elements(size, element(to.data, offset(to.strides, row, at, t), size), to.strides.time, end - t);
  }
  void residual(std::int64_t row, std::int64_t t, std::int64_t end, std::int64_t c, std::int64_t channels) const {
    if (!a.dresidual.data) return;
    for (auto at = c; at < c + channels; ++at)
      copy_elements(size, element(a.dy.data, offset(a.dy.strides, row, at, t), size), a.dy.strides.time,
                    element(a.dresidual.data, offset(a.dresidual.strides, row, at, t), size), a.dresidual.strides.time,
                    end - t);
  }
};

// partial [blocks, width + 1, channels] -> dweight, dbias.
void reduce(Problem const& p, BackwardArgs const& a, std::int64_t blocks, double const* partial) {
  auto const narrow_weight = staging_kernels().narrow(p.weight_dtype, FALTUNG_F64);
  auto const narrow_bias = staging_kernels().narrow(p.bias_dtype, FALTUNG_F64);
  parallel_for(a.runtime.parallel, p.channels, [&](std::int64_t first, std::int64_t last) {
    std::vector<double> sums(last - first);
    for (int j = 0; j <= p.width; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t block = 0; block < blocks; ++block)
        for (auto c = first; c < last; ++c) sums[c - first] += partial[(block * (p.width + 1) + j) * p.channels + c];
      if (j == p.width) {
        if (a.dbias.data)
          narrow_bias(sums.data(), element(a.dbias.data, first * a.dbias.stride, size_of(p.bias_dtype)), a.dbias.stride,
                      last - first);
      } else if (a.dweight.data) {
        narrow_weight(sums.data(),
                      element(a.dweight.data, first * a.dweight.channel + j * a.dweight.tap, size_of(p.weight_dtype)),
                      a.dweight.channel, last - first);
      }
    }
  });
}

void backward_along_time(Problem const& p, BackwardArgs const& a, Runs const& runs, Blocks const& blocks,
                         double* partial) {
  Copies const copies{p, a};
  parallel_for(a.runtime.parallel, p.channels * blocks.count(), [&](std::int64_t first, std::int64_t last) {
    TimeBackwardTile tile(p, a, runs, blocks.length);
    std::vector<double> sums(p.width + 1);
    for (auto item = first, staged = std::int64_t(-1); item < last; ++item) {
      auto const c = item / blocks.count(), block = item % blocks.count();
      if (staged != c) tile.set_channel(c);
      staged = c;
      std::fill(sums.begin(), sums.end(), 0.0);
      for_each_piece(
          p, runs, blocks, block,
          [&](Run const& run, std::int64_t t, std::int64_t end) {
            tile.run(run, t, end, partial ? sums.data() : nullptr);
            copies.residual(run.row, t, end, c, 1);
          },
          [&](std::int64_t row, std::int64_t t, std::int64_t end) {
            copies.zero(a.dx, row, t, end, c, 1);
            copies.zero(a.dresidual, row, t, end, c, 1);
          });
      for (int j = 0; partial && j <= p.width; ++j) partial[(block * (p.width + 1) + j) * p.channels + c] = sums[j];
    }
  });
}

void backward_along_channels(Problem const& p, BackwardArgs const& a, Runs const& runs, Blocks const& blocks,
                             double* partial) {
  Copies const copies{p, a};
  auto const width = ChannelBackwardTile::block(p), channel_blocks = (p.channels + width - 1) / width;
  parallel_for(a.runtime.parallel, channel_blocks * blocks.count(), [&](std::int64_t first, std::int64_t last) {
    ChannelBackwardTile tile(p, a, runs);
    for (auto item = first, staged = std::int64_t(-1); item < last; ++item) {
      auto const c = item / blocks.count() * width, channels = std::min(width, p.channels - c),
                 block = item % blocks.count();
      if (staged != c) tile.set_channels(c, channels);
      staged = c;
      tile.clear_sums();
      for_each_piece(
          p, runs, blocks, block,
          [&](Run const& run, std::int64_t t, std::int64_t end) {
            for (; t < end; t += tile.capacity())
              tile.run(run, t, std::min(end, t + tile.capacity()), partial != nullptr);
          },
          [&](std::int64_t row, std::int64_t t, std::int64_t end) {
            copies.zero(a.dx, row, t, end, c, channels);
            copies.zero(a.dresidual, row, t, end, c, channels);
          });
      for (int j = 0; partial && j <= p.width; ++j)
        std::copy_n(tile.sums(j), channels, &partial[(block * (p.width + 1) + j) * p.channels + c]);
    }
  });
}

// d(initial_state): dxs of the W-1 places before each sequence's first run.
void backward_states(Problem const& p, BackwardArgs const& a, Runs const& runs) {
  auto const width = ChannelBackwardTile::block(p), channel_blocks = (p.channels + width - 1) / width;
  parallel_for(a.runtime.parallel, channel_blocks * p.sequences, [&](std::int64_t first, std::int64_t last) {
    ChannelBackwardTile tile(p, a, runs);
    for (auto item = first, staged = std::int64_t(-1); item < last; ++item) {
      auto const c = item / p.sequences * width, channels = std::min(width, p.channels - c);
      if (staged != c) tile.set_channels(c, channels);
      staged = c;
      tile.state(item % p.sequences);
    }
  });
}

}  // namespace

void backward(Problem const& p, BackwardArgs const& a) {
  // Without tokens the batch may be any number, unless there are states.
  bool const empty = p.cut == Sequences::whole && p.time == 0 && !a.dinitial_state.data;
  auto const runs = empty ? Runs{} : cut(p, a.cut, a.runtime.check);
  bool const along_time = lanes_of(p) == Lanes::time;
  Blocks const blocks(p, along_time ? 2048 : 512);
  std::vector<double> partial(wants_parameters(a) ? blocks.count() * (p.width + 1) * p.channels : 0);
  auto const sums = wants_parameters(a) ? partial.data() : nullptr;
  if (a.dx.data || a.dresidual.data || sums)
    along_time ? backward_along_time(p, a, runs, blocks, sums) : backward_along_channels(p, a, runs, blocks, sums);
  if (wants_parameters(a)) reduce(p, a, blocks.count(), sums);
  if (a.dinitial_state.data) backward_states(p, a, runs);
}

}  // namespace faltung::causal_conv1d::cpu
