// The CUDA list of causal_conv1d, best first.
#include "causal_conv1d/cuda/backward/backward.hpp"
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "causal_conv1d/cuda/update/update.hpp"
#include "causal_conv1d/implementation.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

char const* reject_nothing(Problem const&) { return nullptr; }

std::string fused_policy(Problem const&) { return "a kernel for any strides"; }
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
