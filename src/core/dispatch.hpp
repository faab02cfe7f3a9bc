// Run-time value -> compile-time parameter, without macros and without CUDA.
#pragma once
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace faltung {

// visit.template operator()<T>() with the storage type of a floating dtype.
template <typename Visitor>
decltype(auto) visit_dtype(Dtype dtype, Visitor&& visit) {
  switch (dtype) {
    case FALTUNG_F64:
      return visit.template operator()<double>();
    case FALTUNG_F32:
      return visit.template operator()<float>();
    case FALTUNG_F16:
      return visit.template operator()<Float16>();
    case FALTUNG_BF16:
      return visit.template operator()<BFloat16>();
    default:
      fail(FALTUNG_INVALID_TYPE, "expected a floating dtype, got ", name_of(dtype));
  }
}

template <int... Choices, typename Visitor>
void visit_int(std::int64_t value, char const* name, Visitor&& visit) {
  bool const found = ((value == Choices && (visit.template operator()<Choices>(), true)) || ...);
  if (!found) fail(FALTUNG_UNSUPPORTED, name, " = ", value, " is not compiled in");
}

}  // namespace faltung
