// Tiles of the backward: tokens, dz and dx of a stretch of a run as Real, along time for one channel or along channels
// for a block of them.
#pragma once
#include "causal_conv1d/cpu/tiles.hpp"
#include "core/scratch.hpp"

namespace faltung::causal_conv1d::cpu {

// What both tiles know of a call.
struct BackwardCall {
  Problem const& p;
  BackwardArgs const& a;
  Runs const& runs;
  Tokens tokens{p, a.x, a.initial_state};
  std::int64_t before = p.width - 1, size = size_of(p.x_dtype), real = size_of(tokens.real),
               final_size = size_of(p.final_state_dtype);
  BackwardKernels const& kernels = backward_kernels(tokens.real);
  std::int64_t lanes = kernels.vector_bytes / real;
  bool silu = p.activation == Activation::silu;
  void (*widen_final)(void const*, std::int64_t, void*, std::int64_t) = staging_kernels().widen(p.final_state_dtype,
                                                                                                tokens.real);
  void (*narrow_x)(void const*, void*, std::int64_t, std::int64_t) = staging_kernels().narrow(p.x_dtype, tokens.real);

  // The sequence whose final state is taken from this run, or -1.
  std::int64_t final_of(Run const& run) const;
};

class TimeBackwardTile {
 public:
  TimeBackwardTile(Problem const&, BackwardArgs const&, Runs const&, std::int64_t capacity);
  void set_channel(std::int64_t c);
  // Tokens t .. end - 1: dx where asked for; sums (may be null) [width + 1] grow by dweight and dbias.
  void run(Run const&, std::int64_t t, std::int64_t end, double* sums);

 private:
  void add_final(Run const&, std::int64_t t, std::int64_t end);
  BackwardCall const call_;
  std::int64_t const room_;  // elements of each tile: tokens, what lies on both sides, padding to pairs of registers
  Scratch scratch_;
  void *xs_, *dz_, *dx_;
  double weight_[256], bias_;
  std::int64_t c_ = 0;
};

class ChannelBackwardTile {
 public:
  static std::int64_t block(Problem const& p) { return p.width <= 8 ? 128 : 64; }

  ChannelBackwardTile(Problem const&, BackwardArgs const&, Runs const&);
  void set_channels(std::int64_t c, std::int64_t channels);
  std::int64_t capacity() const { return capacity_; }
  void clear_sums() { std::memset(sums_, 0, (call_.p.width + 1) * block_ * sizeof(double)); }
  double const* sums(int j) const { return sums_ + j * block_; }
  // Tokens t .. end - 1, at most capacity() of them: dx and dresidual where asked for, the sums where `with_sums`.
  void run(Run const&, std::int64_t t, std::int64_t end, bool with_sums);
  // d(initial_state) of a sequence.
  void state(std::int64_t sequence);

 private:
  void* row(void* tile, std::int64_t i) { return element(tile, i * block_, call_.real); }
  void stage_dz(Run const&, std::int64_t t, std::int64_t end, std::int64_t rows, bool with_xs);
  void add_final(std::int64_t sequence, Run const&, std::int64_t token, std::int64_t rows);
  BackwardCall const call_;
  std::int64_t const block_, capacity_;
  Scratch scratch_;
  void *weight_, *bias_, *xs_, *dz_, *dx_;
  double* sums_;
  std::int64_t c_ = 0, channels_ = 0;
};

}  // namespace faltung::causal_conv1d::cpu
