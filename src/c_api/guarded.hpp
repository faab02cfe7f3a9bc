// The only place where C++ exceptions become status codes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/error.hpp"

namespace faltung::c_api {

void set_last_error(char const* message) noexcept;

template <typename Body>
faltung_status guarded(Body&& body) noexcept {
  try {
    body();
    return FALTUNG_OK;
  } catch (Failure const& e) {
    set_last_error(e.what());
    return e.status;
  } catch (std::bad_alloc const&) {
    set_last_error("out of memory");
    return FALTUNG_OUT_OF_MEMORY;
  } catch (std::exception const& e) {
    set_last_error(e.what());
    return FALTUNG_RUNTIME_ERROR;
  } catch (...) {
    set_last_error("an exception of unknown type");
    return FALTUNG_RUNTIME_ERROR;
  }
}

// *pointer, or an error that names the argument.
template <typename T>
T& required(T* pointer, char const* name) {
  require(pointer != nullptr, name, ": expected a value, got NULL");
  return *pointer;
}

// A copy of what the caller's struct has, which may end before ours does: validation reports a size that is too small.
template <typename Options>
Options options_or_default(Options const* options, void (*set_default)(Options*)) {
  Options result;
  set_default(&result);
  if (!options) return result;
  std::memcpy(&result, options, std::min(options->size, sizeof result));
  result.size = options->size;
  return result;
}

// The convention of every function that returns text.
void copy_text(std::string const& text, char* to, std::int64_t capacity, std::int64_t* needed);

}  // namespace faltung::c_api
