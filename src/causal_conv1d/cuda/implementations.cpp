// The CUDA list of causal_conv1d, best first.
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "causal_conv1d/cuda/update/update.hpp"
#include "causal_conv1d/implementation.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

char const* reject_nothing(Problem const&) { return nullptr; }

// Strides and alignment of the other tensors have a say too, which a problem does not tell.
std::string fused_policy(Problem const& p) {
  bool const along_time = p.unit_stride == UnitStride::time && p.direction != Direction::update;
  if (!tuned(p, along_time ? tuned_width_along_time : tuned_width) || p.unit_stride == UnitStride::none)
    return "a kernel for any strides and width";
  if (p.direction == Direction::update) return "vectors of channels where the state lets them, one token a row";
  return p.unit_stride == UnitStride::channel
             ? "vectors of channels by tiles or shares of tokens, width known to the kernel"
             : "vectors of tokens, a warp along a channel, width known to the kernel";
}
std::string any_policy(Problem const&) { return "a kernel for any strides, dtypes and width"; }

std::size_t workspace(Problem const& p) {
  return p.direction == Direction::update    ? 0
         : p.direction == Direction::forward ? edges_bytes(p)
                                             : backward_workspace(p);
}

constexpr Implementation list[] = {
    {"cuda.fused", Selection::automatic, reject_nothing, fused_policy, workspace, forward, backward, update},
    {"cuda.any", Selection::by_name, reject_nothing, any_policy, workspace, forward_any, backward_any, update_any},
};

[[maybe_unused]] bool const registered = (register_backend(FALTUNG_CUDA, {list}), true);

}  // namespace
}  // namespace faltung::causal_conv1d::cuda
