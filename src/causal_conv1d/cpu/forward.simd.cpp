// The forward's kernels: z = bias, then one fused multiply-add per tap, oldest first, whatever the layout; activation,
// residual, one rounding.
#include "causal_conv1d/cpu/activation.simd.hpp"
#include "causal_conv1d/cpu/kernels.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {
namespace {

// Registers (of one channel) and tokens (of one register of channels) in step: more spill. On AVX-512 with SiLU 8 and 6
// gain 16 and 9 % over 4.
inline constexpr int registers_in_step = registers >= 32 ? 8 : 2, tokens_in_step = registers >= 32 ? 6 : 2;

// Registers in step, `step` elements apart in residual (may be null) and y.
template <typename Real, Activation activation, int Count, typename Storage>
FALTUNG_INLINE void finish(Vector<Real> (&z)[Count], Storage const* residual, std::int64_t residual_step, Storage* y,
                           std::int64_t step) {
  activate<Storage, activation>(z);
  if (residual) {
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) z[i] = z[i] + load_converted(residual + i * residual_step);
  }
  store_in_step(y, step, z);
}

// The register that starts `Behind` elements before `current`, whose predecessor in memory is `previous`.
template <int Behind, typename V, int... Lane>
FALTUNG_INLINE V shifted(V previous, V current, std::integer_sequence<int, Lane...>) {
  constexpr int n = sizeof...(Lane);
  return __builtin_shufflevector(previous, current, (n - Behind + Lane)...);
}

// A width known to the compiler: each element is loaded and widened once, windows come from shifts of two registers.
template <typename Storage, typename In, int Width, Activation activation>
void forward_time(TimeForward const& call) {
  using Real = typename RealOf<Storage>::type;
  using V = Vector<Real>;
  constexpr int n = lanes<Real>, before = Width - 1;
  static_assert(before <= n);
  TimeForward const c = call;  // a copy, so that stores to y need not be feared to change it
  auto const x = static_cast<In const*>(c.x) + before;
  V const bias = broadcast<Real>(*static_cast<Real const*>(c.bias));
  V weights[Width];
  for (int j = 0; j < Width; ++j) weights[j] = broadcast<Real>(static_cast<Real const*>(c.weight)[j]);
  alignas(vector_bytes) Real history[n] = {};
  for (int i = 0; i < before; ++i)
    history[n - before + i] = c.history ? static_cast<Real const*>(c.history)[i] : load_one<Real>(x + i - before);
  V previous = load(history);
  auto const residual = static_cast<Storage const*>(c.residual);
  auto const y = static_cast<Storage*>(c.y);
  auto const step = [&]<int Count>(std::int64_t at) __attribute__((always_inline)) {
    V z[Count], current[Count + 1];
    current[0] = previous;
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) current[i + 1] = load_converted(x + at + i * n);
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) z[i] = bias;
    [&]<int... Tap>(std::integer_sequence<int, Tap...>) __attribute__((always_inline)) {
      auto const tap = [&]<int Behind>(V weight) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (int i = 0; i < Count; ++i)
          z[i] = fma(weight, shifted<Behind>(current[i], current[i + 1], std::make_integer_sequence<int, n>()), z[i]);
      };
      (tap.template operator()<before - Tap>(weights[Tap]), ...);
    }
    (std::make_integer_sequence<int, Width>());
    previous = current[Count];
    finish<Real, activation, Count, Storage>(z, residual ? residual + at : nullptr, n, y + at, n);
  };
  std::int64_t at = 0;
  for (; at + registers_in_step * n <= c.count; at += registers_in_step * n)
    step.template operator()<registers_in_step>(at);
  for (; at < c.count; at += n) step.template operator()<1>(at);
}

// `Registers` registers of consecutive tokens, any width.
template <typename In, typename Real, Activation activation, int Registers, typename Storage>
FALTUNG_INLINE void time_step(TimeForward const& c, Vector<Real> bias, std::int64_t at) {
  constexpr int n = lanes<Real>;
  auto const x = static_cast<In const*>(c.x) + at;
  auto const weight = static_cast<Real const*>(c.weight);
  Vector<Real> z[Registers];
#pragma GCC unroll 8
  for (int i = 0; i < Registers; ++i) z[i] = bias;
  for (int j = 0; j < c.width; ++j) {
    Vector<Real> const w = broadcast<Real>(weight[j]);
#pragma GCC unroll 8
    for (int i = 0; i < Registers; ++i) z[i] = fma(w, load_converted(x + i * n + j), z[i]);
  }
  finish<Real, activation, Registers, Storage>(z, c.residual ? static_cast<Storage const*>(c.residual) + at : nullptr,
                                               n, static_cast<Storage*>(c.y) + at, n);
}

template <typename Storage, typename In, Activation activation>
void forward_time_any(TimeForward const& call) {
  using Real = typename RealOf<Storage>::type;
  constexpr int n = lanes<Real>, unrolled = registers_in_step;
  TimeForward const c = call;
  Vector<Real> const bias = broadcast<Real>(*static_cast<Real const*>(c.bias));
  std::int64_t at = 0;
  for (; at + unrolled * n <= c.count; at += unrolled * n)
    time_step<In, Real, activation, unrolled, Storage>(c, bias, at);
  for (; at < c.count; at += n) time_step<In, Real, activation, 1, Storage>(c, bias, at);
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
  auto const residual = static_cast<Storage const*>(c.residual);
  finish<Real, activation, Tokens, Storage>(z, residual ? residual + token * c.residual_stride + channel : nullptr,
                                            c.residual_stride,
                                            static_cast<Storage*>(c.y) + token * c.y_stride + channel, c.y_stride);
}

template <typename Storage, typename In, int Width, Activation activation>
void forward_channel(ChannelForward const& call) {
  ChannelForward const c = call;
  using Real = typename RealOf<Storage>::type;
  constexpr int n = lanes<Real>, unrolled = tokens_in_step;
  std::int64_t token = 0;
  for (; token + unrolled <= c.tokens; token += unrolled)
    for (std::int64_t channel = 0; channel < c.channels; channel += n)
      channel_step<In, Real, Width, activation, unrolled, Storage>(c, token, channel);
  for (; token < c.tokens; ++token)
    for (std::int64_t channel = 0; channel < c.channels; channel += n)
      channel_step<In, Real, Width, activation, 1, Storage>(c, token, channel);
}

// Width 0: read by the kernel.
struct Time {
  using Function = void (*)(TimeForward const&);
  template <typename Storage, typename In, int Width, Activation activation>
  static constexpr Function choose() {
    // fp64 on a small register has fewer lanes than the widest windows known to the compiler reach back.
    if constexpr (takes_history(Width, lanes<typename RealOf<Storage>::type>))
      return forward_time<Storage, In, Width, activation>;
    else
      return forward_time_any<Storage, In, activation>;
  }
};

struct Channel {
  using Function = void (*)(ChannelForward const&);
  template <typename Storage, typename In, int Width, Activation activation>
  static constexpr Function choose() {
    return forward_channel<Storage, In, Width, activation>;
  }
};

template <typename Axis, typename Storage, typename In, Activation activation>
typename Axis::Function by_width(int width) {
  switch (width) {
    case 2:
      return Axis::template choose<Storage, In, 2, activation>();
    case 3:
      return Axis::template choose<Storage, In, 3, activation>();
    case 4:
      return Axis::template choose<Storage, In, 4, activation>();
    default:
      return Axis::template choose<Storage, In, 0, activation>();
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
