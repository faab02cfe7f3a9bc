// What each operator gives the command: one entry per operator, called by main.cpp.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace faltung::app {

// A measurement of one call: against the reference (verify) or against the clock (bench).
struct Check {
  std::string implementation, dtype, what, problem;
  double error, bound;
  bool passed() const { return error <= bound; }  // false for NaN
};

struct Timing {
  std::string implementation, direction;
  double milliseconds;
};

using Progress = std::function<void(std::size_t done, std::size_t all)>;

struct Operator {
  char const* name;
  char const* usage;  // of its shapes and options
  std::string (*explain)(CommandLine&);
  std::vector<Check> (*verify)(bool fast, Progress const&);
  std::vector<Timing> (*bench)(CommandLine&, double seconds);
};

extern Operator const long_conv_operator;

}  // namespace faltung::app
