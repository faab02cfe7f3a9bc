#include "simd/target.hpp"

#include <cstdlib>
#include <string_view>

namespace faltung::simd {
namespace {

Target best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    bool const avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx512 ? Target::avx512 : Target::avx2;
  }
#endif
  return Target::generic;
}

Target chosen() {
  auto const have = best();
  if (char const* const wanted = std::getenv("FALTUNG_SIMD"))
    for (auto const t : {Target::generic, Target::avx2, Target::avx512})
      if (t <= have && std::string_view(wanted) == name_of(t)) return t;
  return have;
}

}  // namespace

Target target() {
  static Target const result = chosen();
  return result;
}

char const* name_of(Target t) {
  switch (t) {
    case Target::generic:
      return "generic";
    case Target::avx2:
      return "avx2";
    case Target::avx512:
      return "avx512";
  }
  return "?";
}

}  // namespace faltung::simd
