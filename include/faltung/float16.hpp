// Storage of the 16-bit floating formats: bits alone, no arithmetic. Types of your own of that size serve as well: see
// dtype_of in tensor.hpp.
#pragma once
#include <cstdint>

namespace faltung {

struct BFloat16 {
  std::uint16_t bits;
};

struct Float16 {
  std::uint16_t bits;
};

}  // namespace faltung
