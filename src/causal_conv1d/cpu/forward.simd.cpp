// The forward's kernels: z = bias, then one fused multiply-add per tap, oldest first, whatever the layout; activation,
// residual, one rounding.
#include "causal_conv1d/cpu/activation.simd.hpp"
#include "causal_conv1d/cpu/kernels.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {
namespace {

template <typename Real, Activation activation, typename Storage>
FALTUNG_INLINE void finish(Vector<Real> z, Storage const* residual, Storage* y) {
  Vector<Real> value = activate<Real, activation>(z);
  if (residual) value = value + load_converted(residual);
  store_converted(y, value);
}

// `Registers` registers of consecutive tokens. Width 0: known at run time only.
template <typename In, typename Real, int Width, Activation activation, int Registers, typename Storage>
FALTUNG_INLINE void time_step(TimeForward const& c, Vector<Real> bias, Vector<Real> const* weights, std::int64_t at) {
  constexpr int n = lanes<Real>;
  auto const x = static_cast<In const*>(c.x) + at;
  auto const weight = static_cast<Real const*>(c.weight);
  int const width = Width ? Width : c.width;
  Vector<Real> z[Registers];
#pragma GCC unroll 8
  for (int i = 0; i < Registers; ++i) z[i] = bias;
#pragma GCC unroll 4
  for (int j = 0; j < width; ++j) {
    Vector<Real> const w = Width ? weights[j] : broadcast<Real>(weight[j]);
#pragma GCC unroll 8
    for (int i = 0; i < Registers; ++i) z[i] = fma(w, load_converted(x + i * n + j), z[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < Registers; ++i)
    finish<Real, activation, Storage>(z[i], c.residual ? static_cast<Storage const*>(c.residual) + at + i * n : nullptr,
                                      static_cast<Storage*>(c.y) + at + i * n);
}

template <typename Storage, typename In, int Width, Activation activation>
void forward_time(TimeForward const& c) {
  using Real = typename RealOf<Storage>::type;
  constexpr int n = lanes<Real>, unrolled = 4;
  Vector<Real> const bias = broadcast<Real>(*static_cast<Real const*>(c.bias));
  Vector<Real> weights[Width ? Width : 1];
  for (int j = 0; j < Width; ++j) weights[j] = broadcast<Real>(static_cast<Real const*>(c.weight)[j]);
  std::int64_t at = 0;
  for (; at + unrolled * n <= c.count; at += unrolled * n)
    time_step<In, Real, Width, activation, unrolled, Storage>(c, bias, weights, at);
  for (; at < c.count; at += n) time_step<In, Real, Width, activation, 1, Storage>(c, bias, weights, at);
}

// One register of channels, `Tokens` tokens: a weight serves all of them.
template <typename In, typename Real, int Width, Activation activation, int Tokens, typename Storage>
FALTUNG_INLINE void channel_step(ChannelForward const& c, std::int64_t token, std::int64_t channel) {
  auto const x = static_cast<In const*>(c.x) + token * c.x_stride + channel;
  auto const weight = static_cast<Real const*>(c.weight) + channel;
  Vector<Real> z[Tokens];
  Vector<Real> const bias = load(static_cast<Real const*>(c.bias) + channel);
#pragma GCC unroll 8
  for (int t = 0; t < Tokens; ++t) z[t] = bias;
  if constexpr (Width > 0) {
    Vector<Real> rows[Tokens + Width - 1];
#pragma GCC unroll 16
    for (int i = 0; i < Tokens + Width - 1; ++i) rows[i] = load_converted(x + i * c.x_stride);
#pragma GCC unroll 8
    for (int j = 0; j < Width; ++j) {
      Vector<Real> const w = load(weight + j * c.weight_stride);
#pragma GCC unroll 8
      for (int t = 0; t < Tokens; ++t) z[t] = fma(w, rows[t + j], z[t]);
    }
  } else {
    for (int j = 0; j < c.width; ++j) {
      Vector<Real> const w = load(weight + j * c.weight_stride);
#pragma GCC unroll 8
      for (int t = 0; t < Tokens; ++t) z[t] = fma(w, load_converted(x + (t + j) * c.x_stride), z[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < Tokens; ++t)
    finish<Real, activation, Storage>(
        z[t],
        c.residual ? static_cast<Storage const*>(c.residual) + (token + t) * c.residual_stride + channel : nullptr,
        static_cast<Storage*>(c.y) + (token + t) * c.y_stride + channel);
}

template <typename Storage, typename In, int Width, Activation activation>
void forward_channel(ChannelForward const& c) {
  using Real = typename RealOf<Storage>::type;
  constexpr int n = lanes<Real>, unrolled = 4;
  std::int64_t token = 0;
  for (; token + unrolled <= c.tokens; token += unrolled)
    for (std::int64_t channel = 0; channel < c.channels; channel += n)
      channel_step<In, Real, Width, activation, unrolled, Storage>(c, token, channel);
  for (; token < c.tokens; ++token)
    for (std::int64_t channel = 0; channel < c.channels; channel += n)
      channel_step<In, Real, Width, activation, 1, Storage>(c, token, channel);
}

struct Time {
  using Function = void (*)(TimeForward const&);
  template <typename Storage, typename In, int Width, Activation activation>
  static constexpr Function function = forward_time<Storage, In, Width, activation>;
};

struct Channel {
  using Function = void (*)(ChannelForward const&);
  template <typename Storage, typename In, int Width, Activation activation>
  static constexpr Function function = forward_channel<Storage, In, Width, activation>;
};

template <typename Axis, typename Storage, typename In, Activation activation>
typename Axis::Function by_width(int width) {
  switch (width) {
    case 2:
      return Axis::template function<Storage, In, 2, activation>;
    case 3:
      return Axis::template function<Storage, In, 3, activation>;
    case 4:
      return Axis::template function<Storage, In, 4, activation>;
    default:
      return Axis::template function<Storage, In, 0, activation>;
  }
}

template <typename Axis, typename Storage>
typename Axis::Function by_input(Input input, int width, Activation activation) {
  using Real = typename RealOf<Storage>::type;
  if (input == Input::stored)
    return activation == Activation::silu ? by_width<Axis, Storage, Storage, Activation::silu>(width)
                                          : by_width<Axis, Storage, Storage, Activation::none>(width);
  return activation == Activation::silu ? by_width<Axis, Storage, Real, Activation::silu>(width)
                                        : by_width<Axis, Storage, Real, Activation::none>(width);
}

template <typename Axis>
typename Axis::Function choose(Dtype x, Input input, int width, Activation activation) {
  switch (x) {
    case FALTUNG_F64:
      return by_input<Axis, double>(input, width, activation);
    case FALTUNG_F32:
      return by_input<Axis, float>(input, width, activation);
    case FALTUNG_F16:
      return by_input<Axis, Float16>(input, width, activation);
    default:
      return by_input<Axis, BFloat16>(input, width, activation);
  }
}

}  // namespace

extern ForwardKernels const forward_table;
ForwardKernels const forward_table{vector_bytes, choose<Time>, choose<Channel>};

}  // namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD
