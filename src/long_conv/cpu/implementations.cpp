// The CPU's list, best first.
#include "core/dispatch.hpp"
#include "long_conv/cpu/direct.hpp"
#include "long_conv/cpu/transformed.hpp"
#include "long_conv/implementation.hpp"
#include "long_conv/reference.hpp"

namespace faltung::long_conv::cpu {
namespace {

char const* reject_nothing(Problem const&) { return nullptr; }
std::string reference_policy(Problem const&) { return "double sums, one output at a time"; }
std::size_t no_workspace(Problem const&) { return 0; }

void fill_zero(Problem const& p, BackwardArgs const& a) {
  auto const zero = [](void* data, Dtype dtype, std::int64_t at) {
    visit_dtype(dtype, [&]<typename T> { static_cast<T*>(data)[at] = T{}; });
  };
  for (std::int64_t c = 0; c < p.channels; ++c) {
    if (a.dshortcut.data) zero(a.dshortcut.data, p.shortcut_dtype, c * a.dshortcut.stride);
    if (!a.dk.data || p.sharing == FilterSharing::per_sample) continue;
    auto const& s = a.dk.strides;
    for (std::int64_t i = 0; i < p.axes[0].filter; ++i)
      for (std::int64_t j = 0; j < p.axes[1].filter; ++j)
        for (std::int64_t m = 0; m < p.axes[2].filter; ++m)
          zero(a.dk.data, p.k_dtype, c * s.channel + i * s.spatial[0] + j * s.spatial[1] + m * s.spatial[2]);
  }
}

constexpr Implementation list[] = {
    {"cpu.direct", Selection::automatic, reject_nothing, direct::policy, no_workspace, direct::forward,
     direct::backward, direct::prefer_transformed},
    {"cpu.transformed", Selection::automatic, transformed::reject, transformed::policy, no_workspace,
     transformed::forward, transformed::backward},
    {"cpu.reference", Selection::by_name, reject_nothing, reference_policy, no_workspace, reference::forward,
     reference::backward},
};

[[maybe_unused]] bool const registered = (register_backend(FALTUNG_CPU, {list, fill_zero}), true);

}  // namespace
}  // namespace faltung::long_conv::cpu
