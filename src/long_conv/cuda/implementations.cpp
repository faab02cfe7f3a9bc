// The CUDA list of long_conv, best first.
#include "long_conv/cuda/direct/direct.hpp"
#include "long_conv/cuda/direct/window.hpp"
#include "long_conv/cuda/line/line.hpp"
#include "long_conv/cuda/onchip/onchip.hpp"
#include "long_conv/cuda/planes.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/spectral/spectral.hpp"
#include "long_conv/cuda/spectral_passes/spectral_passes.hpp"
#include "long_conv/cuda/toeplitz/toeplitz.hpp"
#include "long_conv/cuda/transformed/transformed.hpp"
#include "long_conv/implementation.hpp"

namespace faltung::long_conv::cuda {
namespace {

std::size_t no_workspace(Problem const&) { return 0; }

char const* reject_toeplitz(Problem const& p) {
  // fp32 operands are split under a power of two that looks at the whole image: a huge later value would cost earlier
  // outputs bits.
  if (p.k_dtype == FALTUNG_F32 && p.direction == Direction::forward)
    for (auto const& axis : p.axes)
      if (axis.boundary == Boundary::causal && axis.extent > 1)
        return "scales fp32 images as wholes: not causal to the bit";
  return toeplitz::reject(p);
}

char const* prefer_windows(Problem const& p) {
  return direct::in_windows(p) ? "so few taps are faster directly (cuda.direct)" : nullptr;
}

// As if every call had planes of its own.
constexpr Implementation of_planes[] = {
    {"cuda.onchip", Selection::automatic, onchip::reject, onchip::policy, onchip::workspace, onchip::forward,
     onchip::backward, prefer_windows},
    {"cuda.spectral", Selection::automatic, spectral::reject, spectral::policy, no_workspace, spectral::forward,
     spectral::backward},
    {"cuda.toeplitz", Selection::automatic, reject_toeplitz, toeplitz::policy, no_workspace, toeplitz::forward,
     toeplitz::backward},
    {"cuda.line", Selection::automatic, line::reject, line::policy, no_workspace, line::forward, line::backward,
     line::prefer_others},
    {"cuda.spectral_passes", Selection::automatic, spectral_passes::reject, spectral_passes::policy,
     spectral_passes::workspace, spectral_passes::forward, spectral_passes::backward, spectral_passes::prefer_others},
    {"cuda.transformed", Selection::automatic, transformed::reject, transformed::policy, transformed::workspace,
     transformed::forward, transformed::backward, prefer_windows},
    {"cuda.direct", Selection::automatic, direct::reject, direct::policy, direct::workspace, direct::forward,
     direct::backward},
};

constexpr auto list = with_planes<of_planes>();

[[maybe_unused]] bool const registered = (register_backend(FALTUNG_CUDA, {list, fill_zero}), true);

}  // namespace
}  // namespace faltung::long_conv::cuda
