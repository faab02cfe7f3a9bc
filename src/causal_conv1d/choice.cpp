#include "causal_conv1d/choice.hpp"

#include <cstring>

#include "core/error.hpp"

namespace faltung::causal_conv1d {
namespace {

// Null when a call that asks for `only` (null: for none by name) may get the implementation.
char const* reason_against(Implementation const& i, Problem const& p, char const* only) {
  if (only && std::strcmp(only, i.name) != 0) return "another one was asked for by name";
  if (!only && i.selection == Selection::by_name) return "serves only when asked for by name";
  return i.reject(p);
}

}  // namespace

std::string explain(Problem const& p, char const* only) {
  std::string text = to_string(p) + "\n";
  auto const found = backend(p.device);
  if (!found) return text + "  no backend is loaded for this device\n";
  char const* chosen = nullptr;
  for (auto const& i : found->implementations) {
    auto const reason = reason_against(i, p, only);
    if (!reason && !chosen) chosen = i.name;
    text +=
        concatenate("  ", i.name, ": ", reason ? std::string("declines: ") + reason : "accepts: " + i.policy(p), "\n");
  }
  return text + "  chosen: " + (chosen ? chosen : "none") + "\n";
}

Implementation const& choose(Problem const& p, char const* only) {
  auto const found = backend(p.device);
  if (!found)
    fail(FALTUNG_UNSUPPORTED, "x is on ", p.device == FALTUNG_CUDA ? "a CUDA device" : "the CPU",
         ", and no backend for it is loaded (libfaltung_cuda serves CUDA)");
  for (auto const& i : found->implementations)
    if (!reason_against(i, p, only)) return i;
  fail(FALTUNG_UNSUPPORTED, "no implementation accepts this call:\n", explain(p, only));
}

}  // namespace faltung::causal_conv1d
