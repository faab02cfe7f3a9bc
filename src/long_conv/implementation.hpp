// The seam between the operator and its backends: an ordered list, best first, each entry saying why it declines.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv {

// Whether a call that names no implementation may get this one.
enum class Selection { automatic, by_name };

struct Implementation {
  char const* name;                          // "cpu.direct"
  Selection selection;
  char const* (*reject)(Problem const&);     // null: accepts; else the reason in words
  std::string (*policy)(Problem const&);     // what it would choose, for explain; accepted problems only
  std::size_t (*workspace)(Problem const&);  // bytes of Runtime::workspace
  void (*forward)(Problem const&, ForwardArgs const&);
  void (*backward)(Problem const&, BackwardArgs const&);
  char const* (*prefer_others)(Problem const&) = nullptr;  // why a later one is faster; not asked where named
};

struct Backend {
  std::span<Implementation const> implementations;
  // Writes zeros to a gradient of a problem with an empty batch.
  void (*fill_zero)(Problem const&, BackwardArgs const&);
};

// A backend hands itself in when its library is loaded.
FALTUNG_API void register_backend(faltung_device_type, Backend const&);

// Null when no backend for the device is loaded.
Backend const* backend(faltung_device_type);

}  // namespace faltung::long_conv
