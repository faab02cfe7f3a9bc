// Halves for the host, by the library's own conversions.
#pragma once
#include "core/dtype.hpp"

struct __half {
  faltung::Float16 value;
  __half() = default;
  __half(float from) : value(faltung::from_float<faltung::Float16>(from)) {}
  operator float() const { return faltung::to_float(value); }
};
inline float __half2float(__half from) { return float(from); }
inline __half __float2half(float from) { return __half(from); }
inline __half __double2half(double from) { return __half(faltung::round_to_odd(from)); }
