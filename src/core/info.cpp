#include "core/info.hpp"

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "long_conv/implementation.hpp"
#include "simd/target.hpp"

namespace faltung {

char const* version() { return FALTUNG_VERSION; }

std::string info() {
  return concatenate("version: ", version(), "\nsimd: ", simd::name_of(simd::target()), "\nthreads: ", num_threads(),
                     "\ncpu backend: ", long_conv::backend(FALTUNG_CPU) ? "loaded" : "missing",
                     "\ncuda backend: ", long_conv::backend(FALTUNG_CUDA) ? "loaded" : "not loaded", "\n");
}

}  // namespace faltung
