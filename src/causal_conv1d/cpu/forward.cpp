// Forward on the CPU. Tokens whose whole window lies in x are convolved where they lie, if the strides allow; the
// others (the first W-1 of a run, tails shorter than a register, strided tensors) go through tiles, with the same
// kernels and so with the same bits.
#include <vector>

#include "causal_conv1d/cpu/channel_tile.hpp"
#include "causal_conv1d/cpu/simd.hpp"
#include "causal_conv1d/cpu/states.hpp"
#include "causal_conv1d/cpu/tiles.hpp"
#include "core/error.hpp"
#include "core/scratch.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

// Stretches of one channel, each with its history, one behind the other: one kernel call computes all, and the outputs
// that belong to history are thrown away.
class TimeTile {
 public:
  static constexpr std::int64_t capacity = 1536;  // 6 KB of fp32: x, residual and y stay in the first-level cache

  TimeTile(Problem const& p, ForwardArgs const& a)
      : p_(p),
        a_(a),
        tokens_{p, a.x, a.initial_state},
        size_(size_of(p.x_dtype)),
        real_(size_of(tokens_.real)),
        lanes_(forward_kernels().vector_bytes / real_),
        kernel_(forward_kernels().time(p.x_dtype, Input::widened, p.width, p.activation)),
        scratch_((capacity + lanes_) * (real_ + 2 * size_) + 3 * scratch_alignment),
        xs_(scratch_.take<std::byte>((capacity + lanes_) * real_)),
        residual_(scratch_.take<std::byte>((capacity + lanes_) * size_)),
        y_(scratch_.take<std::byte>((capacity + lanes_) * size_)) {}

  Tokens const& tokens() const { return tokens_; }

  void append(Run const& run, std::int64_t t, std::int64_t end, TimeForward const& channel, std::int64_t c) {
    auto const before = p_.width - 1;
    while (t < end) {
      auto room = capacity - used_ - before;
      if (room < std::min<std::int64_t>(end - t, lanes_)) {
        flush(channel, c);
        room = capacity - before;
      }
      auto const count = std::min(end - t, room);
      tokens_.along_time(run, c, t - before, count + before, element(xs_, used_, real_));
      if (a_.residual.data)
        copy_elements(size_, element(a_.residual.data, offset(a_.residual.strides, run.row, c, t), size_),
                      a_.residual.strides.time, element(residual_, used_, size_), 1, count);
      pieces_.push_back({used_, run.row, t, count});
      used_ += count + before;
      t += count;
    }
  }

  void flush(TimeForward call, std::int64_t c) {
    if (pieces_.empty()) return;
    std::int64_t const before = p_.width - 1, count = (used_ - before + lanes_ - 1) / lanes_ * lanes_;
    std::memset(element(xs_, used_, real_), 0, (count + before - used_) * real_);
    call.x = xs_;
    call.residual = a_.residual.data ? residual_ : nullptr;
    call.y = y_;
    call.count = count;
    kernel_(call);
    for (auto const& piece : pieces_)
      copy_elements(size_, element(y_, piece.at, size_), 1,
                    element(a_.y.data, offset(a_.y.strides, piece.row, c, piece.t), size_), a_.y.strides.time,
                    piece.count);
    pieces_.clear();
    used_ = 0;
  }

 private:
  struct Piece {
    std::int64_t at, row, t, count;
  };
  Problem const& p_;
  ForwardArgs const& a_;
  Tokens const tokens_;
  std::int64_t const size_, real_, lanes_;
  void (*kernel_)(TimeForward const&);
  Scratch scratch_;
  void *xs_, *residual_, *y_;
  std::int64_t used_ = 0;
  std::vector<Piece> pieces_;
};

void forward_along_time(Problem const& p, ForwardArgs const& a, Runs const& runs) {
  Blocks const blocks(p, 2048);
  auto const size = size_of(p.x_dtype), real = size_of(real_of(p.x_dtype)), before = std::int64_t(p.width - 1);
  auto const lanes = forward_kernels().vector_bytes / real;
  bool const in_place =
      a.x.strides.time == 1 && a.y.strides.time == 1 && (!a.residual.data || a.residual.strides.time == 1);
  bool const apart = takes_history(p.width, lanes);
  auto const kernel = forward_kernels().time(p.x_dtype, Input::stored, p.width, p.activation);
  parallel_for(a.runtime.parallel, p.channels * blocks.count(), [&](std::int64_t first, std::int64_t last) {
    TimeTile tile(p, a);
    double weight[256], bias, history[4];
    for (auto item = first, staged = std::int64_t(-1); item < last; ++item) {
      auto const c = item / blocks.count();
      if (staged != c) stage_parameters(p, a.weight, a.bias, c, 1, 1, weight, &bias);
      staged = c;
      TimeForward call{.x = nullptr,
                       .history = nullptr,
                       .weight = weight,
                       .bias = &bias,
                       .residual = nullptr,
                       .y = nullptr,
                       .count = 0,
                       .width = p.width};
      for_each_piece(
          p, runs, blocks, item % blocks.count(),
          [&](Run const& run, std::int64_t t, std::int64_t end) {
            // The tokens whose windows lie in x or, where the kernel takes them apart, in the history; from an aligned
            // y on: a store across two cache lines costs as much as two.
            auto begin = apart ? t : std::max(t, run.begin + before);
            auto const y =
                reinterpret_cast<std::uintptr_t>(element(a.y.data, offset(a.y.strides, run.row, c, begin), size));
            begin += (lanes - y / size % lanes) % lanes;
            auto const count = in_place && end > begin ? (end - begin) / lanes * lanes : 0;
            if (count == 0) return tile.append(run, t, end, call, c);
            tile.append(run, t, begin, call, c);
            call.history = nullptr;
            if (begin < run.begin + before) {
              tile.tokens().along_time(run, c, begin - before, before, history);
              call.history = history;
            }
            call.x = element(a.x.data, offset(a.x.strides, run.row, c, begin - before), size);
            call.y = element(a.y.data, offset(a.y.strides, run.row, c, begin), size);
            call.residual = element(a.residual.data, offset(a.residual.strides, run.row, c, begin), size);
            call.count = count;
            kernel(call);
            call.history = nullptr;
            tile.append(run, begin + count, end, call, c);
          },
          [&](std::int64_t row, std::int64_t t, std::int64_t end) {
            zero_elements(size, element(a.y.data, offset(a.y.strides, row, c, t), size), a.y.strides.time, end - t);
          });
      tile.flush(call, c);
    }
  });
}

void forward_along_channels(Problem const& p, ForwardArgs const& a, Runs const& runs) {
  Blocks const blocks(p, 128);
  auto const size = size_of(p.x_dtype), before = std::int64_t(p.width - 1);
  auto const width = ChannelTile::block(p), channel_blocks = (p.channels + width - 1) / width;
  bool const in_place =
      a.x.strides.channel == 1 && a.y.strides.channel == 1 && (!a.residual.data || a.residual.strides.channel == 1);
  auto const kernel = forward_kernels().channel(p.x_dtype, Input::stored, p.width, p.activation);
  parallel_for(a.runtime.parallel, channel_blocks * blocks.count(), [&](std::int64_t first, std::int64_t last) {
    ChannelTile tile(p, {a.x, a.initial_state, a.residual, a.y});
    for (auto item = first, staged = std::int64_t(-1); item < last; ++item) {
      auto const c = item / blocks.count() * width, channels = std::min(width, p.channels - c);
      if (staged != c) tile.set_parameters(a.weight, a.bias, c, channels);
      staged = c;
      auto const whole = in_place ? channels / tile.lanes() * tile.lanes() : 0;
      for_each_piece(
          p, runs, blocks, item % blocks.count(),
          [&](Run const& run, std::int64_t t, std::int64_t end) {
            auto const begin = whole ? std::min(end, std::max(t, run.begin + before)) : end;
            tile.forward(run, t, begin, 0, channels);
            if (begin == end) return;
            auto call = tile.call();
            call.x = element(a.x.data, offset(a.x.strides, run.row, c, begin - before), size);
            call.x_stride = a.x.strides.time;
            call.residual = element(a.residual.data, offset(a.residual.strides, run.row, c, begin), size);
            call.residual_stride = a.residual.strides.time;
            call.y = element(a.y.data, offset(a.y.strides, run.row, c, begin), size);
            call.y_stride = a.y.strides.time;
            call.tokens = end - begin;
            call.channels = whole;
            kernel(call);
            tile.forward(run, begin, end, whole, channels - whole);
          },
          [&](std::int64_t row, std::int64_t t, std::int64_t end) {
            for (; t < end; ++t)
              zero_elements(size, element(a.y.data, offset(a.y.strides, row, c, t), size), a.y.strides.channel,
                            channels);
          });
    }
  });
}

}  // namespace

std::string policy(Problem const& p) {
  auto const real = size_of(real_of(p.x_dtype));
  return concatenate("registers of ", forward_kernels().vector_bytes / real, " lanes along ",
                     lanes_of(p) == Lanes::time ? "time" : "channels", ", width ",
                     p.width >= 2 && p.width <= 4 ? "known to the kernel" : "read by the kernel");
}

void forward(Problem const& p, ForwardArgs const& a) {
  if (p.cut == Sequences::whole && p.time == 0 && !a.final_state.data) return;  // the batch may be any number then
  auto const runs = cut(p, a.cut, a.runtime.check);
  if (lanes_of(p) == Lanes::time)
    forward_along_time(p, a, runs);
  else
    forward_along_channels(p, a, runs);
  if (a.final_state.data) write_final_state(p, a, runs);
}

}  // namespace faltung::causal_conv1d::cpu
