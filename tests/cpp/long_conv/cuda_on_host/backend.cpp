// The kernels of cuda.transformed and the copies of channels last as the backend of CUDA tensors whose memory is the
// host's.
#include "core/error.hpp"
#include "long_conv/cuda/direct/direct.hpp"
#include "long_conv/cuda/line/launch.hpp"
#include "long_conv/cuda/line/line.hpp"
#include "long_conv/cuda/planes.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/transformed/transformed.hpp"
#include "long_conv/implementation.hpp"

namespace faltung::long_conv::cuda {

void shortcut_gradient(Problem const&, BackwardArgs const&, cudaStream_t) {
  fail(FALTUNG_UNSUPPORTED, "no kernel of cuda.transformed: expected a backward without dshortcut");
}

// Products on tensor cores are not for the host.
namespace line {
char const* reject(Problem const&) { return "takes a GPU"; }
void convolve(Problem const&, Turn, ConstView const&, ConstView const&, ConstVector const&, Sums const&, View const&,
              cudaStream_t) {
  fail(FALTUNG_UNSUPPORTED, "expected no call of cuda.line");
}
}  // namespace line

namespace {

constexpr Implementation of_planes[] = {
    {"cuda.transformed", Selection::automatic, transformed::reject, transformed::policy, transformed::workspace,
     transformed::forward, transformed::backward},
    {"cuda.direct", Selection::automatic, direct::reject, direct::policy, direct::workspace, direct::forward,
     direct::backward}};
constexpr auto list = with_planes<of_planes>();
[[maybe_unused]] bool const registered =
    (register_backend(FALTUNG_CUDA, {list, [](Problem const&, BackwardArgs const&) {}}), true);

}  // namespace
}  // namespace faltung::long_conv::cuda
