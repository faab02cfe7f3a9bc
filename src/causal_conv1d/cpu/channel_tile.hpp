// A block of channels through a tile [tokens, channels]: rows of state and of x as Real, the forward's kernel, rows of
// y. Serves the forward where it cannot work in place, and every update.
#pragma once
#include "causal_conv1d/cpu/tiles.hpp"
#include "core/scratch.hpp"

namespace faltung::causal_conv1d::cpu {

class ChannelTile {
 public:
  struct Tensors {
    ConstView x;
    ConstState state;
    ConstView residual;
    View y;
  };

  // Channels of a block: wide enough for the row-by-row walk through memory, narrow enough for weight and rows to stay
  // in cache.
  static std::int64_t block(Problem const& p) { return p.width <= 4 ? 1024 : p.width <= 8 ? 256 : 64; }

  ChannelTile(Problem const&, Tensors const&);

  std::int64_t lanes() const { return lanes_; }

  // Channels c .. c + channels - 1 from now on.
  void set_parameters(ConstWeight const&, ConstBias const& bias, std::int64_t c, std::int64_t channels);

  // A kernel call with weight and bias filled in.
  ChannelForward call() const;

  // y of tokens t .. end - 1 of the run, of `count` channels from the block's channel `channel` on (a multiple of the
  // lanes).
  void forward(Run const&, std::int64_t t, std::int64_t end, std::int64_t channel, std::int64_t count);

  // The same for tokens whose W-1 predecessors the caller has put into the first rows of the tile.
  void* row(std::int64_t i) { return element(rows_, i * block_, real_); }
  std::int64_t capacity() const { return capacity_; }  // tokens of one convolve()
  void convolve(std::int64_t row, std::int64_t t, std::int64_t tokens, std::int64_t channel, std::int64_t count);
  Tokens const& tokens() const { return tokens_; }

 private:
  Problem const& p_;
  Tensors const tensors_;
  Tokens const tokens_;
  std::int64_t const size_, real_, lanes_, block_, capacity_;
  void (*kernel_)(ChannelForward const&);
  Scratch scratch_;
  void *weight_, *bias_, *rows_, *residual_, *y_;
  std::int64_t c_ = 0;
};

}  // namespace faltung::causal_conv1d::cpu
