// The CUDA list of long_conv. Empty so far: a call on a CUDA tensor says so; the seam and the registration are real.
#include "core/error.hpp"
#include "long_conv/implementation.hpp"

namespace faltung::long_conv::cuda {
namespace {

void fill_zero(Problem const& p, BackwardArgs const&) {
  fail(FALTUNG_UNSUPPORTED, "no CUDA implementation yet: ", to_string(p));
}

[[maybe_unused]] bool const registered = (register_backend(FALTUNG_CUDA, {{}, fill_zero}), true);

}  // namespace
}  // namespace faltung::long_conv::cuda
