// bfloat16 for the host, by the library's own conversions.
#pragma once
#include "core/dtype.hpp"

struct __nv_bfloat16 {
  faltung::BFloat16 value;
  __nv_bfloat16() = default;
  __nv_bfloat16(float from) : value(faltung::from_float<faltung::BFloat16>(from)) {}
  operator float() const { return faltung::to_float(value); }
};
inline float __bfloat162float(__nv_bfloat16 from) { return float(from); }
inline __nv_bfloat16 __float2bfloat16(float from) { return __nv_bfloat16(from); }
inline __nv_bfloat16 __double2bfloat16(double from) { return __nv_bfloat16(faltung::round_to_odd(from)); }
