// Division of numbers below 2^31 by a number known on the host, in three instructions.
#pragma once
#include <cstdint>

namespace faltung::cuda {

struct Divisor {
  std::uint32_t value, multiplier, shift;
  Divisor(std::int64_t by = 1) : value(std::uint32_t(by)), shift(31) {
    while (std::uint64_t(1) << (shift - 31) < value) ++shift;
    multiplier = std::uint32_t((std::uint64_t(1) << shift) / value + 1);
  }
  constexpr std::uint32_t quotient(std::uint32_t of) const {
    return std::uint32_t(std::uint64_t(of) * multiplier >> shift);
  }
  constexpr std::uint32_t remainder(std::uint32_t of, std::uint32_t quotient) const { return of - quotient * value; }
};

}  // namespace faltung::cuda
