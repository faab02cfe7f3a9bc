// What this build is and what the machine gives it.
#pragma once
#include <string>

namespace faltung {

char const* version();
std::string info();

}  // namespace faltung
