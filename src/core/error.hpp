// Errors below the C ABI are exceptions that carry a status; src/c_api turns them into codes and words.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

#include "faltung/faltung.h"

namespace faltung {

// Exported: libfaltung_cuda throws it, src/c_api of libfaltung catches it.
struct FALTUNG_API Failure : std::runtime_error {
  Failure(faltung_status code, std::string const& message) : std::runtime_error(message), status(code) {}
  faltung_status status;
};

template <typename... Parts>
std::string concatenate(Parts const&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <typename... Parts>
[[noreturn]] void fail(faltung_status code, Parts const&... parts) {
  throw Failure(code, concatenate(parts...));
}

// Callers say what was expected and what came.
template <typename... Parts>
void require(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    fail(FALTUNG_INVALID_ARGUMENT, parts...);
}

template <typename... Parts>
void require_type(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    fail(FALTUNG_INVALID_TYPE, parts...);
}

}  // namespace faltung
