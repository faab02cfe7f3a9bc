// Conversions between storage types and facts about dtypes. Conversions round to nearest, ties to even; NaN stays NaN.
#pragma once
#include <cstdint>

#include "faltung/faltung.h"
#include "faltung/float16.hpp"

namespace faltung {

using Dtype = faltung_dtype;

// SIMD sources are compiled once per instruction set: what they share with the rest must leave no out-of-line copy
// behind, which the linker could pick for a processor that lacks the instructions.
#define FALTUNG_INLINE __attribute__((always_inline)) inline

FALTUNG_INLINE float to_float(BFloat16 value) { return __builtin_bit_cast(float, std::uint32_t(value.bits) << 16); }

FALTUNG_INLINE float to_float(Float16 value) {
  std::uint32_t const sign = std::uint32_t(value.bits & 0x8000u) << 16, magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return __builtin_bit_cast(float, sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u) {  // zero and subnormals: magnitude * 2^-24, exact
    float const unsigned_value = float(magnitude) * 0x1p-24f;
    return sign ? -unsigned_value : unsigned_value;
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + 0x38000000u));
}

FALTUNG_INLINE float to_float(float value) { return value; }
FALTUNG_INLINE double to_float(double value) { return value; }

// A double goes to 16 bits in one rounding: to odd in fp32, whose 24 bits leave two and more to spare, then to nearest.
FALTUNG_INLINE float round_to_odd(double value) {
  float const nearest = float(value);
  if (!(double(nearest) != value) || value != value) return nearest;
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, nearest);
  if ((bits & 0x7fffffffu) == 0x7f800000u) return nearest;
  bool const rounded_away = (value < 0) ? double(nearest) < value : double(nearest) > value;
  if (rounded_away) bits -= 1;
  return __builtin_bit_cast(float, bits | 1u);
}

template <typename T>
T from_float(float value);

template <>
FALTUNG_INLINE BFloat16 from_float(float value) {
  std::uint32_t const bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t((bits >> 16) | 0x40u)};
  return {std::uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
FALTUNG_INLINE Float16 from_float(float value) {
  std::uint32_t const bits = __builtin_bit_cast(std::uint32_t, value);
  std::uint16_t const sign = std::uint16_t((bits >> 16) & 0x8000u);
  std::uint32_t const magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {std::uint16_t(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {std::uint16_t(sign | 0x7c00u)};  // 65520 and above round to infinity
  if (magnitude <
      0x38800000u) {  // below 2^-14: adding 0.5 aligns the last bit of a subnormal half with that of the sum
    float const sum = __builtin_bit_cast(float, magnitude) + 0.5f;
    return {std::uint16_t(sign | (__builtin_bit_cast(std::uint32_t, sum) - 0x3f000000u))};
  }
  return {std::uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13))};
}

template <>
FALTUNG_INLINE float from_float(float value) {
  return value;
}

// The one rounding of a double result to a storage type.
template <typename T>
FALTUNG_INLINE T round_to(double value) {
  return from_float<T>(round_to_odd(value));
}
template <>
FALTUNG_INLINE float round_to(double value) {
  return float(value);
}
template <>
FALTUNG_INLINE double round_to(double value) {
  return value;
}

constexpr std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case FALTUNG_F64:
    case FALTUNG_I64:
      return 8;
    case FALTUNG_F32:
    case FALTUNG_I32:
      return 4;
    case FALTUNG_F16:
    case FALTUNG_BF16:
      return 2;
  }
  return 0;
}

constexpr bool is_floating(Dtype dtype) { return dtype >= FALTUNG_F64 && dtype <= FALTUNG_BF16; }

constexpr char const* name_of(Dtype dtype) {
  switch (dtype) {
    case FALTUNG_F64:
      return "float64";
    case FALTUNG_F32:
      return "float32";
    case FALTUNG_F16:
      return "float16";
    case FALTUNG_BF16:
      return "bfloat16";
    case FALTUNG_I32:
      return "int32";
    case FALTUNG_I64:
      return "int64";
  }
  return "unknown dtype";
}

}  // namespace faltung
