// Dispatch: the first implementation of a problem's backend that accepts, and the list in words.
#pragma once
#include <string>

#include "causal_conv1d/implementation.hpp"

namespace faltung::causal_conv1d {

// `only`: null, or the name of the one implementation that must serve.
Implementation const& choose(Problem const&, char const* only);
std::string explain(Problem const&, char const* only);

}  // namespace faltung::causal_conv1d
