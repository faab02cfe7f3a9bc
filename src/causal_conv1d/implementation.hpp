// The seam between the operator and its backends: an ordered list, best first, each entry saying why it declines.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "causal_conv1d/problem.hpp"

namespace faltung::causal_conv1d {

// Whether a call that names no implementation may get this one.
enum class Selection { automatic, by_name };

// Every function takes any extent, zero included: an empty batch still has states to pass through and gradients that
// are zero.
struct Implementation {
  char const* name;  // "cpu.simd"
  Selection selection;
  char const* (*reject)(Problem const&);     // null: accepts; else the reason in words
  std::string (*policy)(Problem const&);     // what it would choose, for explain; accepted problems only
  std::size_t (*workspace)(Problem const&);  // bytes of Runtime::workspace
  void (*forward)(Problem const&, ForwardArgs const&);
  void (*backward)(Problem const&, BackwardArgs const&);
  void (*update)(Problem const&, UpdateArgs const&);
};

struct Backend {
  std::span<Implementation const> implementations;
};

// A backend hands itself in when its library is loaded.
FALTUNG_API void register_backend(faltung_device_type, Backend const&);

// Null when no backend for the device is loaded.
Backend const* backend(faltung_device_type);

}  // namespace faltung::causal_conv1d
