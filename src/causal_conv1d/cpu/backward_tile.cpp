#include "causal_conv1d/cpu/backward_tile.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

// to[i] += from[i]
template <typename Real>
void add(Real const* from, Real* to, std::int64_t stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
}

void add(Dtype real, void const* from, void* to, std::int64_t count) {
  if (real == FALTUNG_F64)
    add(static_cast<double const*>(from), static_cast<double*>(to), 1, count);
  else
    add(static_cast<float const*>(from), static_cast<float*>(to), 1, count);
}

}  // namespace

std::int64_t BackwardCall::final_of(Run const& run) const {
  if (p.cut != Sequences::labelled) return run.state;
  return runs.last[run.row].begin == run.begin ? run.row : -1;
}

TimeBackwardTile::TimeBackwardTile(Problem const& p, BackwardArgs const& a, Runs const& runs, std::int64_t capacity)
    : call_{p, a, runs},
      room_(capacity + 3 * call_.before + 2 * call_.lanes),
      scratch_(3 * (room_ * call_.real + scratch_alignment)),
      xs_(scratch_.take<std::byte>(room_ * call_.real)),
      dz_(scratch_.take<std::byte>(room_ * call_.real)),
      dx_(scratch_.take<std::byte>(room_ * call_.real)) {}

void TimeBackwardTile::set_channel(std::int64_t c) {
  c_ = c;
  stage_parameters(call_.p, call_.a.weight, call_.a.bias, c, 1, 1, weight_, &bias_);
}

void TimeBackwardTile::run(Run const& run, std::int64_t t, std::int64_t end, double* sums) {
  auto const& p = call_.p;
  auto const& a = call_.a;
  auto const count = end - t;
  // dz is needed as far as windows reach back into the stretch.
  auto const reach = a.dx.data ? std::min(run.end, end + call_.before) - t : count;
  auto const read =
      reach + 2 * call_.before + 2 * call_.lanes;  // the farthest that a kernel looks, and at most the room
  auto const zero_behind = [&](void* tile, std::int64_t used) {
    std::memset(element(tile, used, call_.real), 0, (read - used) * call_.real);
  };
  if (!a.dx.data && !sums) return;
  call_.tokens.widen_x(element(a.dy.data, offset(a.dy.strides, run.row, c_, t), call_.size), a.dy.strides.time, dz_,
                       reach);
  if (call_.silu || (sums && a.dweight.data)) {
    call_.tokens.along_time(run, c_, t - call_.before, reach + call_.before, xs_);
    zero_behind(xs_, reach + call_.before);
  }
  TimeBackward kernel{.xs = xs_,
                      .weight = weight_,
                      .bias = &bias_,
                      .dz = dz_,
                      .dx = dx_,
                      .dweight = sums,
                      .count = reach,
                      .width = p.width};
  if (call_.silu) {
    zero_behind(dz_, reach);
    call_.kernels.silu_time(kernel);
  }
  zero_behind(dz_, reach);
  kernel.count = count;
  if (sums) call_.kernels.parameters_time(kernel);
  if (!a.dx.data) return;
  call_.kernels.input_time(kernel);
  add_final(run, t, end);
  call_.narrow_x(dx_, element(a.dx.data, offset(a.dx.strides, run.row, c_, t), call_.size), a.dx.strides.time, count);
}

void TimeBackwardTile::add_final(Run const& run, std::int64_t t, std::int64_t end) {
  auto const& final = call_.a.dfinal_state;
  auto const sequence = final.data ? call_.final_of(run) : -1;
  auto const begin = std::max(t, run.end - final.columns);  // of the tokens that the state holds
  if (sequence < 0 || begin >= end) return;
  double buffer[256];
  auto const column = final.columns - (run.end - begin);
  call_.widen_final(element(final.data, offset(final, sequence, c_, column), call_.final_size), final.column, buffer,
                    end - begin);
  add(call_.tokens.real, buffer, element(dx_, begin - t, call_.real), end - begin);
}

ChannelBackwardTile::ChannelBackwardTile(Problem const& p, BackwardArgs const& a, Runs const& runs)
    : call_{p, a, runs},
      block_((std::min(block(p), p.channels) + call_.lanes - 1) / call_.lanes * call_.lanes),
      capacity_(std::max(64, p.width)),
      scratch_(block_ * ((4 * p.width + 3 * capacity_) * call_.real + (p.width + 1) * sizeof(double)) +
               6 * scratch_alignment),
      weight_(scratch_.take<std::byte>(block_ * p.width * call_.real)),
      bias_(scratch_.take<std::byte>(block_ * call_.real)),
      xs_(scratch_.take<std::byte>(block_ * (capacity_ + 2 * call_.before) * call_.real)),
      dz_(scratch_.take<std::byte>(block_ * (capacity_ + call_.before) * call_.real)),
      dx_(scratch_.take<std::byte>(block_ * capacity_ * call_.real)),
      sums_(scratch_.take<double>(block_ * (p.width + 1))) {
  // The padding lanes stay finite.
  std::memset(xs_, 0, block_ * (capacity_ + 2 * call_.before) * call_.real);
  std::memset(dz_, 0, block_ * (capacity_ + call_.before) * call_.real);
}

void ChannelBackwardTile::set_channels(std::int64_t c, std::int64_t channels) {
  c_ = c;
  channels_ = channels;
  stage_parameters(call_.p, call_.a.weight, call_.a.bias, c, channels, block_, weight_, bias_);
}

// dz of tokens t .. end - 1 into the tile, zeros behind them up to `rows`; xs where that or the caller needs them.
void ChannelBackwardTile::stage_dz(Run const& run, std::int64_t t, std::int64_t end, std::int64_t rows, bool with_xs) {
  auto const& dy = call_.a.dy;
  for (auto at = t; at < end; ++at)
    call_.tokens.widen_x(element(dy.data, offset(dy.strides, run.row, c_, at), call_.size), dy.strides.channel,
                         row(dz_, at - t), channels_);
  if (call_.silu || with_xs)
    for (auto at = t - call_.before; at < end; ++at)
      call_.tokens.along_channels(run, c_, at, channels_, row(xs_, at - t + call_.before));
  if (call_.silu)
    call_.kernels.silu_channel({.xs = xs_,
                                .weight = weight_,
                                .bias = bias_,
                                .dz = dz_,
                                .dx = nullptr,
                                .dweight = nullptr,
                                .stride = block_,
                                .tokens = end - t,
                                .width = call_.p.width});
  if (auto const used = end - t; used < rows) std::memset(row(dz_, used), 0, (rows - used) * block_ * call_.real);
}

void ChannelBackwardTile::run(Run const& run, std::int64_t t, std::int64_t end, bool with_sums) {
  auto const& a = call_.a;
  auto const count = end - t;
  if (a.dresidual.data)
    for (auto at = t; at < end; ++at)
      copy_elements(call_.size, element(a.dy.data, offset(a.dy.strides, run.row, c_, at), call_.size),
                    a.dy.strides.channel,
                    element(a.dresidual.data, offset(a.dresidual.strides, run.row, c_, at), call_.size),
                    a.dresidual.strides.channel, channels_);
  if (!a.dx.data && !with_sums) return;
  auto const reach = a.dx.data ? std::min(run.end, end + call_.before) : end;
  stage_dz(run, t, reach, a.dx.data ? count + call_.before : count, with_sums && a.dweight.data);
  ChannelBackward const kernel{.xs = xs_,
                               .weight = weight_,
                               .bias = bias_,
                               .dz = dz_,
                               .dx = dx_,
                               .dweight = sums_,
                               .stride = block_,
                               .tokens = count,
                               .width = call_.p.width};
  if (with_sums) call_.kernels.parameters_channel(kernel);
  if (!a.dx.data) return;
  call_.kernels.input_channel(kernel);
  if (a.dfinal_state.data)
    if (auto const sequence = call_.final_of(run); sequence >= 0) add_final(sequence, run, t - run.begin, count);
  for (auto at = t; at < end; ++at)
    call_.narrow_x(row(dx_, at - t), element(a.dx.data, offset(a.dx.strides, run.row, c_, at), call_.size),
                   a.dx.strides.channel, channels_);
}

// dx_ holds `rows` tokens of the run from `token` on (negative: in the state before it).
void ChannelBackwardTile::add_final(std::int64_t sequence, Run const& run, std::int64_t token, std::int64_t rows) {
  auto const& final = call_.a.dfinal_state;
  double buffer[128];
  for (std::int64_t column = 0; column < final.columns; ++column) {
    auto const i = run.length() - final.columns + column - token;
    if (i < 0 || i >= rows) continue;
    call_.widen_final(element(final.data, offset(final, sequence, c_, column), call_.final_size), final.channel, buffer,
                      channels_);
    add(call_.tokens.real, buffer, row(dx_, i), channels_);
  }
}

void ChannelBackwardTile::state(std::int64_t sequence) {
  auto const& run = call_.runs.first[sequence];
  auto const before = call_.before;
  auto const& d = call_.a.dinitial_state;
  auto const size = size_of(call_.p.state_dtype);
  auto const narrow = staging_kernels().narrow(call_.p.state_dtype, call_.tokens.real);
  if (before > 0) {
    // dz of the first W-1 tokens; then W-1 zeros in front of them, for the places before the run.
    auto const tokens = std::min(run.length(), before);
    stage_dz(run, run.begin, run.begin + tokens, before, false);
    std::memmove(row(dz_, before), dz_, before * block_ * call_.real);
    std::memset(dz_, 0, before * block_ * call_.real);
    call_.kernels.input_channel({.xs = nullptr,
                                 .weight = weight_,
                                 .bias = nullptr,
                                 .dz = dz_,
                                 .dx = dx_,
                                 .dweight = nullptr,
                                 .stride = block_,
                                 .tokens = before,
                                 .width = call_.p.width});
    if (call_.a.dfinal_state.data && call_.final_of(run) == sequence) add_final(sequence, run, -before, before);
  }
  for (std::int64_t column = 0; column < d.columns; ++column) {
    auto const to = element(d.data, offset(d, sequence, c_, column), size);
    if (auto const i = column - (d.columns - before); i >= 0)
      narrow(row(dx_, i), to, d.channel, channels_);
    else
      zero_elements(size, to, d.channel, channels_);
  }
}

}  // namespace faltung::causal_conv1d::cpu
