// The CUDA list of causal_conv1d. Empty so far: a call on a CUDA tensor says so; the seam and the registration are
// real.
#include "causal_conv1d/implementation.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

[[maybe_unused]] bool const registered = (register_backend(FALTUNG_CUDA, {}), true);

}  // namespace
}  // namespace faltung::causal_conv1d::cuda
