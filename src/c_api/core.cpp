#include <algorithm>
#include <cstring>

#include "c_api/guarded.hpp"
#include "core/info.hpp"
#include "core/parallel.hpp"

namespace faltung::c_api {
namespace {

thread_local std::string last_error;

}  // namespace

void set_last_error(char const* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();  // out of memory while saying so: the code alone remains
  }
}

void copy_text(std::string const& text, char* to, std::int64_t capacity, std::int64_t* needed) {
  require(capacity >= 0, "capacity: must not be negative, got ", capacity);
  require(to || capacity == 0, "text: expected a buffer of ", capacity, " bytes, got NULL");
  if (needed) *needed = std::int64_t(text.size()) + 1;
  if (capacity == 0) return;
  auto const length = std::min(std::size_t(capacity) - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace faltung::c_api

using namespace faltung;
using c_api::guarded;

extern "C" {

char const* faltung_last_error(void) { return c_api::last_error.c_str(); }

char const* faltung_version(void) { return version(); }

faltung_status faltung_set_num_threads(int32_t threads) {
  return guarded([&] { set_num_threads(threads); });
}

int32_t faltung_num_threads(void) { return num_threads(); }

faltung_status faltung_info(char* text, int64_t capacity, int64_t* needed) {
  return guarded([&] { c_api::copy_text(info(), text, capacity, needed); });
}

}  // extern "C"
