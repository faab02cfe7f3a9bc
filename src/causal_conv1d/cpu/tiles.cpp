#include "causal_conv1d/cpu/tiles.hpp"

#include "simd/target.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

template <typename Unit>
void copy(void const* from, std::int64_t from_stride, void* to, std::int64_t to_stride, std::int64_t count) {
  auto const source = static_cast<Unit const*>(from);
  auto const target = static_cast<Unit*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i * to_stride] = source[i * from_stride];
}

}  // namespace

void copy_elements(std::int64_t size, void const* from, std::int64_t from_stride, void* to, std::int64_t to_stride,
                   std::int64_t count) {
  if (count <= 0) return;
  if (from_stride == 1 && to_stride == 1) {
    std::memmove(to, from, count * size);  // columns of a state may lie in each other's memory
  } else if (size == 2) {
    copy<std::uint16_t>(from, from_stride, to, to_stride, count);
  } else if (size == 4) {
    copy<std::uint32_t>(from, from_stride, to, to_stride, count);
  } else {
    copy<std::uint64_t>(from, from_stride, to, to_stride, count);
  }
}

void zero_elements(std::int64_t size, void* to, std::int64_t stride, std::int64_t count) {
  std::uint64_t const zero = 0;  // the bits of 0 in every dtype
  if (count <= 0) return;
  if (stride == 1)
    std::memset(to, 0, count * size);
  else
    copy_elements(size, &zero, 0, to, stride, count);
}

void convert_elements(Dtype from_dtype, void const* from, std::int64_t from_stride, Dtype to_dtype, void* to,
                      std::int64_t to_stride, std::int64_t count) {
  if (from_dtype == to_dtype) return copy_elements(size_of(from_dtype), from, from_stride, to, to_stride, count);
  Dtype const real = from_dtype == FALTUNG_F64 || to_dtype == FALTUNG_F64 ? FALTUNG_F64 : FALTUNG_F32;
  auto const widen = staging_kernels().widen(from_dtype, real);
  auto const narrow = staging_kernels().narrow(to_dtype, real);
  double buffer[256];
  for (std::int64_t i = 0; i < count; i += 256) {
    auto const n = std::min<std::int64_t>(256, count - i);
    widen(element(from, i * from_stride, size_of(from_dtype)), from_stride, buffer, n);
    narrow(buffer, element(to, i * to_stride, size_of(to_dtype)), to_stride, n);
  }
}

Lanes lanes_of(Problem const& p) {
  // Below 16 tokens a register along time is mostly padding, whatever the strides.
  bool const time_fills = p.time >= 16;
  switch (p.unit_stride) {
    case UnitStride::time:
      return time_fills || p.channels < 8 ? Lanes::time : Lanes::channels;
    case UnitStride::channel:
      return Lanes::channels;
    case UnitStride::none:
      return time_fills && p.channels < 8 ? Lanes::time : Lanes::channels;
  }
  return Lanes::channels;
}

void Tokens::along_time(Run const& run, std::int64_t c, std::int64_t t, std::int64_t count, void* to) const {
  auto const size = size_of(real);
  if (auto const before = std::min(count, run.begin - t); before > 0) {
    if (run.state >= 0 && state.data)
      widen_state(
          element(state.data, offset(state, run.state, c, state.columns + t - run.begin), size_of(p.state_dtype)),
          state.column, to, before);
    else
      std::memset(to, 0, before * size);
    to = element(to, before, size);
    t += before;
    count -= before;
  }
  if (count > 0)
    widen_x(element(x.data, offset(x.strides, run.row, c, t), size_of(p.x_dtype)), x.strides.time, to, count);
}

void Tokens::along_channels(Run const& run, std::int64_t c, std::int64_t t, std::int64_t count, void* to) const {
  if (t >= run.begin)
    widen_x(element(x.data, offset(x.strides, run.row, c, t), size_of(p.x_dtype)), x.strides.channel, to, count);
  else if (run.state >= 0 && state.data)
    widen_state(element(state.data, offset(state, run.state, c, state.columns + t - run.begin), size_of(p.state_dtype)),
                state.channel, to, count);
  else
    std::memset(to, 0, count * size_of(real));
}

void stage_parameters(Problem const& p, ConstWeight const& weight, ConstBias const& bias, std::int64_t c,
                      std::int64_t count, std::int64_t stride, void* weight_to, void* bias_to) {
  auto const real = real_of(p.x_dtype);
  auto const size = size_of(real);
  std::memset(weight_to, 0, p.width * stride * size);
  std::memset(bias_to, 0, stride * size);
  if (weight.data) {
    auto const widen = staging_kernels().widen(p.weight_dtype, real);
    for (int j = 0; j < p.width; ++j)
      widen(element(weight.data, c * weight.channel + j * weight.tap, size_of(p.weight_dtype)), weight.channel,
            element(weight_to, j * stride, size), count);
  }
  if (bias.data)
    staging_kernels().widen(p.bias_dtype, real)(element(bias.data, c * bias.stride, size_of(p.bias_dtype)), bias.stride,
                                                bias_to, count);
}

}  // namespace faltung::causal_conv1d::cpu
