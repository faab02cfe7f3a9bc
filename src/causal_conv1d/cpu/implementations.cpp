// The CPU's list, best first.
#include "causal_conv1d/cpu/simd.hpp"
#include "causal_conv1d/implementation.hpp"
#include "causal_conv1d/reference.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

char const* reject_nothing(Problem const&) { return nullptr; }
std::string reference_policy(Problem const&) { return "double sums, one token at a time"; }
std::size_t no_workspace(Problem const&) { return 0; }

constexpr Implementation list[] = {
    {"cpu.simd", Selection::automatic, reject_nothing, policy, no_workspace, forward, backward, update},
    {"cpu.reference", Selection::by_name, reject_nothing, reference_policy, no_workspace, reference::forward,
     reference::backward, reference::update},
};

[[maybe_unused]] bool const registered = (register_backend(FALTUNG_CPU, {list}), true);

}  // namespace
}  // namespace faltung::causal_conv1d::cpu
