// Conversions of the 16-bit formats, against the formats' definition in double: every half, every bfloat16, every
// midpoint.
#include "core/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/dispatch.hpp"
#include "support/data.hpp"

namespace faltung {
namespace {

// The value of a 16-bit pattern with `exponent_bits`, by the definition of IEEE 754.
double value_of(unsigned bits, int exponent_bits) {
  int const mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int const exponent = int(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  double const mantissa = double(bits & ((1u << mantissa_bits) - 1)), sign = bits & 0x8000u ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <typename T>
void every_pattern(int exponent_bits) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    T const pattern{std::uint16_t(bits)};
    double const value = value_of(bits, exponent_bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(pattern))) << bits;
      EXPECT_TRUE(std::isnan(to_float(from_float<T>(to_float(pattern))))) << bits;
      continue;
    }
    EXPECT_EQ(double(to_float(pattern)), value) << bits;
    EXPECT_EQ(from_float<T>(float(value)).bits, bits);
    EXPECT_EQ(round_to<T>(value).bits, bits);
  }
}

TEST(Dtype, every_half) { every_pattern<Float16>(5); }
TEST(Dtype, every_bfloat16) { every_pattern<BFloat16>(8); }

// Between neighbours: the midpoint goes to the even one, a hair beside it to the nearer one, in one rounding from
// double.
template <typename T>
void every_midpoint(unsigned largest) {
  for (unsigned bits = 0; bits < largest; ++bits) {
    double const low = double(to_float(T{std::uint16_t(bits)})), high = double(to_float(T{std::uint16_t(bits + 1)}));
    double const middle = (low + high) / 2, hair = (high - low) * 0x1p-30;
    unsigned const even = bits % 2 ? bits + 1 : bits;
    for (unsigned const sign : {0u, 0x8000u}) {
      double const s = sign ? -1 : 1;
      EXPECT_EQ(round_to<T>(s * middle).bits, even | sign) << bits;
      EXPECT_EQ(round_to<T>(s * (middle + hair)).bits, (bits + 1) | sign) << bits;
      EXPECT_EQ(round_to<T>(s * (middle - hair)).bits, bits | sign) << bits;
      if (double(float(middle)) == middle) {
        EXPECT_EQ(from_float<T>(float(s * middle)).bits, even | sign) << bits;
      }
    }
  }
}

TEST(Dtype, every_midpoint_of_half) { every_midpoint<Float16>(0x7bff); }
TEST(Dtype, every_midpoint_of_bfloat16) { every_midpoint<BFloat16>(0x7f7f); }

TEST(Dtype, overflow_goes_to_infinity_at_the_midpoint_beyond_the_largest) {
  EXPECT_EQ(from_float<Float16>(65519.996f).bits, 0x7bff);
  EXPECT_EQ(from_float<Float16>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(round_to<Float16>(65519.9999999).bits, 0x7bff);
  EXPECT_EQ(round_to<Float16>(-1e300).bits, 0xfc00);
  EXPECT_EQ(from_float<BFloat16>(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(round_to<BFloat16>(1e300).bits, 0x7f80);
  EXPECT_EQ(round_to<float>(1e300), HUGE_VALF);
}

TEST(Dtype, signed_zero_and_subnormals_survive) {
  EXPECT_EQ(from_float<Float16>(-0.0f).bits, 0x8000);
  EXPECT_EQ(round_to<BFloat16>(-0.0).bits, 0x8000);
  EXPECT_EQ(round_to<Float16>(0x1p-25).bits, 0);  // half of the smallest: to even
  EXPECT_EQ(round_to<Float16>(0x1.0001p-25).bits, 1);
  EXPECT_EQ(round_to<Float16>(-1e-300).bits, 0x8000);
  EXPECT_EQ(round_to<BFloat16>(1e-300).bits, 0);
}

TEST(Dtype, random_floats_round_to_the_nearest) {
  testing::Random random(3);
  for (int i = 0; i < 200000; ++i) {
    auto const pattern = std::uint32_t(random.next());
    float value;
    std::memcpy(&value, &pattern, sizeof value);
    if (!(std::abs(value) < 65504)) continue;
    auto const rounded = from_float<Float16>(value);
    double const error = std::abs(double(to_float(rounded)) - value);
    for (int const step : {-1, 1}) {
      auto const neighbour = std::uint16_t(rounded.bits + step);
      if ((neighbour & 0x7fffu) < 0x7c00u && (neighbour ^ rounded.bits) < 0x8000) {
        EXPECT_LE(error, std::abs(double(to_float(Float16{neighbour})) - value)) << value;
      }
    }
  }
}

TEST(Dispatch, visits_the_storage_type) {
  EXPECT_EQ(visit_dtype(FALTUNG_BF16, []<typename T> { return sizeof(T); }), 2u);
  EXPECT_EQ(visit_dtype(FALTUNG_F64, []<typename T> { return sizeof(T); }), 8u);
  EXPECT_THROW(visit_dtype(FALTUNG_I32, []<typename T> { return sizeof(T); }), Failure);
  int seen = 0;
  visit_int<2, 3, 4>(3, "width", [&]<int width> { seen = width; });
  EXPECT_EQ(seen, 3);
  try {
    visit_int<2, 3>(5, "width", [&]<int> {});
    FAIL();
  } catch (Failure const& failure) {
    EXPECT_EQ(failure.status, FALTUNG_UNSUPPORTED);
    EXPECT_STREQ(failure.what(), "width = 5 is not compiled in");
  }
}

}  // namespace
}  // namespace faltung
