// Copies between a tensor's own dtype and strides and the tiles that the kernels work on.
#include "causal_conv1d/cpu/activation.simd.hpp"
#include "causal_conv1d/cpu/kernels.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {
namespace {

template <typename Storage, typename Real>
void widen(void const* from, std::int64_t stride, void* to, std::int64_t count) {
  auto const source = static_cast<Storage const*>(from);
  auto const target = static_cast<Real*>(to);
  std::int64_t i = 0;
  if constexpr (sizeof(typename RealOf<Storage>::type) == sizeof(Real))
    if (stride == 1)
      for (; i + lanes<Real> <= count; i += lanes<Real>) store(target + i, load_converted(source + i));
  for (; i < count; ++i) target[i] = Real(to_float(source[i * stride]));
}

template <typename Storage, typename Real>
void narrow(void const* from, void* to, std::int64_t stride, std::int64_t count) {
  auto const source = static_cast<Real const*>(from);
  auto const target = static_cast<Storage*>(to);
  std::int64_t i = 0;
  if constexpr (sizeof(typename RealOf<Storage>::type) == sizeof(Real))
    if (stride == 1)
      for (; i + lanes<Real> <= count; i += lanes<Real>) store_converted(target + i, load(source + i));
  for (; i < count; ++i) target[i * stride] = round_to<Storage>(source[i]);
}

using Widen = void (*)(void const*, std::int64_t, void*, std::int64_t);
using Narrow = void (*)(void const*, void*, std::int64_t, std::int64_t);

template <typename Real>
Widen widen_to(Dtype from) {
  switch (from) {
    case FALTUNG_F64:
      return widen<double, Real>;
    case FALTUNG_F32:
      return widen<float, Real>;
    case FALTUNG_F16:
      return widen<Float16, Real>;
    default:
      return widen<BFloat16, Real>;
  }
}

template <typename Real>
Narrow narrow_from(Dtype to) {
  switch (to) {
    case FALTUNG_F64:
      return narrow<double, Real>;
    case FALTUNG_F32:
      return narrow<float, Real>;
    case FALTUNG_F16:
      return narrow<Float16, Real>;
    default:
      return narrow<BFloat16, Real>;
  }
}

Widen choose_widen(Dtype from, Dtype real) {
  return real == FALTUNG_F64 ? widen_to<double>(from) : widen_to<float>(from);
}
Narrow choose_narrow(Dtype to, Dtype real) {
  return real == FALTUNG_F64 ? narrow_from<double>(to) : narrow_from<float>(to);
}

}  // namespace

extern StagingKernels const staging_table;
StagingKernels const staging_table{choose_widen, choose_narrow};

}  // namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD
