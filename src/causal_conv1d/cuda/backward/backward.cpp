// Backward on CUDA: dx, dresidual and partial sums by the kernel that the strides, the dtype and the width allow; then
// the sums of dweight and dbias, then the gradient of the initial state. Only what is asked for is computed.
#include "causal_conv1d/cuda/backward/backward.hpp"

#include <algorithm>

#include "causal_conv1d/cuda/fits.hpp"
#include "cuda/device.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

bool wants_parameters(BackwardArgs const& a) { return a.dweight.data || a.dbias.data; }

std::size_t partial_bytes(Problem const& p, std::int64_t parts) {
  return parts * (p.width + 1) * p.channels * (p.x_dtype == FALTUNG_F64 ? sizeof(double) : sizeof(float));
}

// convolve(cut, partial) returns the number of partial sums.
template <typename Convolve>
void run(Problem const& p, BackwardArgs const& a, Convolve&& convolve) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  check_cut(p, a.cut, a.runtime);
  auto const cut = make_cut(p, a.cut, a.runtime, a.initial_state.data || a.dfinal_state.data || a.dinitial_state.data);
  // Without tokens there is no workspace, and dweight is zero.
  bool const tokens = p.batch > 0 && p.time > 0, parameters = wants_parameters(a);
  void* const partial = tokens && parameters ? static_cast<std::byte*>(a.runtime.workspace) + edges_bytes(p) : nullptr;
  std::int64_t parts = 0;
  if (tokens && (a.dx.data || a.dresidual.data || parameters)) parts = convolve(cut, partial);
  if (parameters) reduce_parameters(p, a, partial, parts);
  if (a.dinitial_state.data) write_state_gradient(p, a, cut);
}

}  // namespace

std::size_t backward_workspace(Problem const& p) {
  auto parts = any_backward_policy(p).parts;
  if (tuned(p) && p.unit_stride == UnitStride::channel && p.time > 0 && p.batch > 0 && p.channels > 0)
    parts = std::max(parts, channels_backward_policy(p).parts);
  if (tuned(p, tuned_width_along_time) && p.unit_stride == UnitStride::time && p.time > 0 && p.batch > 0 &&
      p.channels > 0)
    parts = std::max(parts, time_backward_policy(p).parts);
  return edges_bytes(p) + partial_bytes(p, parts);
}

void backward(Problem const& p, BackwardArgs const& a) {
  // What the kernels for one unit stride leave out follows: dresidual; and what d(final_state) adds to dx, but for that
  // of W-1 columns where channels lie side by side.
  BackwardArgs fewer = a, fewest = a;
  fewer.dresidual = fewest.dresidual = {};
  fewest.dfinal_state = {};
  auto const run_main = [&](BackwardArgs const& main, auto launch, std::int64_t parts) {
    run(p, a, [&](Cut const& cut, void* partial) {
      if (main.dx.data || partial) launch(p, main, cut, partial);
      if (a.dx.data && a.dfinal_state.data && !main.dfinal_state.data) write_final_gradient(p, a, cut);
      if (a.dresidual.data) write_residual_gradient(p, a, cut);
      return parts;
    });
  };
  if (p.unit_stride == UnitStride::channel)
    for (auto const& main : {fewer, fewest})
      if (fits_backward_channels(p, main))
        return run_main(main, launch_backward_channels, channels_backward_policy(p).parts);
  if (p.unit_stride == UnitStride::time && fits_backward_time(p, fewest))
    return run_main(fewest, launch_backward_time, time_backward_policy(p).parts);
  backward_any(p, a);
}

void backward_any(Problem const& p, BackwardArgs const& a) {
  run(p, a, [&](Cut const& cut, void* partial) {
    launch_backward_any(p, a, cut, partial);
    return any_backward_policy(p).parts;
  });
}

}  // namespace faltung::causal_conv1d::cuda
