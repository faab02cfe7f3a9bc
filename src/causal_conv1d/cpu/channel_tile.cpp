#include "causal_conv1d/cpu/channel_tile.hpp"

namespace faltung::causal_conv1d::cpu {

ChannelTile::ChannelTile(Problem const& p, Tensors const& tensors)
    : p_(p),
      tensors_(tensors),
      tokens_{p, tensors.x, tensors.state},
      size_(size_of(p.x_dtype)),
      real_(size_of(tokens_.real)),
      lanes_(forward_kernels().vector_bytes / real_),
      block_((std::min(block(p), p.channels) + lanes_ - 1) / lanes_ * lanes_),
      capacity_(std::max(32, p.width)),  // of the rows at most half are history
      kernel_(forward_kernels().channel(p.x_dtype, Input::widened, p.width, p.activation)),
      scratch_(block_ * ((2 * p.width + capacity_) * real_ + 2 * capacity_ * size_) + 5 * scratch_alignment),
      weight_(scratch_.take<std::byte>(block_ * p.width * real_)),
      bias_(scratch_.take<std::byte>(block_ * real_)),
      rows_(scratch_.take<std::byte>(block_ * (p.width - 1 + capacity_) * real_)),
      residual_(scratch_.take<std::byte>(block_ * capacity_ * size_)),
      y_(scratch_.take<std::byte>(block_ * capacity_ * size_)) {
  std::memset(rows_, 0, block_ * (p.width - 1 + capacity_) * real_);  // the padding lanes stay finite
}

void ChannelTile::set_parameters(ConstWeight const& weight, ConstBias const& bias, std::int64_t c,
                                 std::int64_t channels) {
  c_ = c;
  stage_parameters(p_, weight, bias, c, channels, block_, weight_, bias_);
}

ChannelForward ChannelTile::call() const {
  return {.x = nullptr,
          .x_stride = 0,
          .weight = weight_,
          .weight_stride = block_,
          .bias = bias_,
          .residual = nullptr,
          .residual_stride = 0,
          .y = nullptr,
          .y_stride = 0,
          .tokens = 0,
          .channels = 0,
          .width = p_.width};
}

void ChannelTile::forward(Run const& run, std::int64_t t, std::int64_t end, std::int64_t channel, std::int64_t count) {
  auto const before = p_.width - 1;
  for (; t < end && count > 0; t += capacity_) {
    auto const tokens = std::min(capacity_, end - t);
    for (std::int64_t i = 0; i < before + tokens; ++i)
      tokens_.along_channels(run, c_ + channel, t - before + i, count, element(row(i), channel, real_));
    convolve(run.row, t, tokens, channel, count);
  }
}

void ChannelTile::convolve(std::int64_t row, std::int64_t t, std::int64_t tokens, std::int64_t channel,
                           std::int64_t count) {
  auto call = this->call();
  call.x = element(rows_, channel, real_);
  call.x_stride = call.residual_stride = call.y_stride = block_;
  call.weight = element(weight_, channel, real_);
  call.bias = element(bias_, channel, real_);
  auto const& residual = tensors_.residual;
  for (std::int64_t i = 0; residual.data && i < tokens; ++i)
    copy_elements(size_, element(residual.data, offset(residual.strides, row, c_ + channel, t + i), size_),
                  residual.strides.channel, element(residual_, i * block_ + channel, size_), 1, count);
  call.residual = residual.data ? element(residual_, channel, size_) : nullptr;
  call.y = element(y_, channel, size_);
  call.tokens = tokens;
  call.channels = (count + lanes_ - 1) / lanes_ * lanes_;
  kernel_(call);
  auto const& y = tensors_.y;
  for (std::int64_t i = 0; i < tokens; ++i)
    copy_elements(size_, element(y_, i * block_ + channel, size_), 1,
                  element(y.data, offset(y.strides, row, c_ + channel, t + i), size_), y.strides.channel, count);
}

}  // namespace faltung::causal_conv1d::cpu
