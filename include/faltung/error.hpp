// Failures of the C ABI as exceptions: the message is faltung_last_error(), the status its kind.
#pragma once
#include <stdexcept>
#include <string>

#include "faltung/faltung.h"

namespace faltung {

class Error : public std::runtime_error {
 public:
  Error(faltung_status status, std::string const& message) : std::runtime_error(message), status_(status) {}
  faltung_status status() const noexcept { return status_; }

 private:
  faltung_status status_;
};

// Throws the failure that a function of the C ABI has just returned on this thread.
inline void check(faltung_status status) {
  if (status != FALTUNG_OK) throw Error(status, faltung_last_error());
}

// The whole text of a function of the C ABI with the convention (char* text, int64_t capacity, int64_t* needed).
template <typename Writer>
std::string text_of(Writer&& writer) {
  std::string text(512, '\0');
  for (;;) {
    std::int64_t needed = 0;
    check(writer(text.data(), std::int64_t(text.size()), &needed));
    bool const whole = needed <= std::int64_t(text.size());
    text.resize(std::size_t(needed));  // the final NUL included: room for the next try
    if (!whole) continue;
    text.pop_back();
    return text;
  }
}

// What this build and this machine have, one `name: value` line each.
inline std::string info() { return text_of(faltung_info); }

}  // namespace faltung
