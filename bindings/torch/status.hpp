// A failed C call becomes an exception whose text starts with its kind: python/faltung/_errors.py turns the kind into
// ValueError, TypeError, ... and shows the library's words alone.
#pragma once
#include <stdexcept>
#include <string>

#include "faltung/faltung.h"

namespace faltung::torch_binding {

constexpr char const* kind_of(faltung_status status) {
  switch (status) {
    case FALTUNG_OK:
      return "no error";
    case FALTUNG_INVALID_ARGUMENT:
      return "invalid argument";
    case FALTUNG_INVALID_TYPE:
      return "invalid type";
    case FALTUNG_UNSUPPORTED:
      return "unsupported";
    case FALTUNG_OUT_OF_MEMORY:
      return "out of memory";
    case FALTUNG_RUNTIME_ERROR:
      return "runtime error";
  }
  return "runtime error";
}

[[noreturn]] inline void fail(faltung_status status, std::string const& words) {
  throw std::runtime_error(std::string("faltung: ") + kind_of(status) + ": " + words);
}

inline void check(faltung_status status) {
  if (status != FALTUNG_OK) [[unlikely]]
    fail(status, faltung_last_error());
}

}  // namespace faltung::torch_binding
