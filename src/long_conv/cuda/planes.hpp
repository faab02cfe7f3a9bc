// Channels last: images and filters are copied into contiguous planes [batch, channels, points] of the workspace and
// results back, a range of channels at a time, so that the kernels read and write whole sectors of memory.
#pragma once
#include <array>
#include <iterator>
#include <utility>

#include "long_conv/implementation.hpp"

namespace faltung::long_conv::cuda {

// Whether a call goes through planes: its channels lie side by side, and there are enough of them for whole sectors.
bool through_planes(Problem const&);

std::string policy_through_planes(Implementation const& inner, Problem const&);
std::size_t workspace_through_planes(Implementation const& inner, Problem const&);
void forward_through_planes(Implementation const& inner, Problem const&, ForwardArgs const&);
void backward_through_planes(Implementation const& inner, Problem const&, BackwardArgs const&);

// The entries of a list for calls of any layout.
template <auto const& inner>
constexpr auto with_planes() {
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array{Implementation{
        .name = inner[i].name,
        .selection = inner[i].selection,
        .reject = inner[i].reject,
        .policy = [](Problem const& p) { return policy_through_planes(inner[i], p); },
        .workspace = [](Problem const& p) { return workspace_through_planes(inner[i], p); },
        .forward = [](Problem const& p, ForwardArgs const& a) { forward_through_planes(inner[i], p, a); },
        .backward = [](Problem const& p, BackwardArgs const& a) { backward_through_planes(inner[i], p, a); },
        .prefer_others = inner[i].prefer_others}...};
  }
  (std::make_index_sequence<std::size(inner)>{});
}

}  // namespace faltung::long_conv::cuda
