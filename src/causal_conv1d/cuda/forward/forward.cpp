// Forward on CUDA: the kernel that the strides, the dtype and the width allow, then the final state.
#include "causal_conv1d/cuda/forward/forward.hpp"

#include "cuda/device.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

template <typename Convolve>
void run(Problem const& p, ForwardArgs const& a, Convolve&& convolve) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  check_cut(p, a.cut, a.runtime);
  auto const cut = make_cut(p, a.cut, a.runtime, a.initial_state.data || a.final_state.data);
  if (p.batch > 0 && p.time > 0) convolve(cut);
  if (a.final_state.data) write_final_state(p, a, cut);
}

}  // namespace

void forward(Problem const& p, ForwardArgs const& a) {
  run(p, a, [&](Cut const& cut) {
    if (fits_forward_channels(p, a))
      launch_forward_channels(p, a, cut);
    else if (fits_forward_time(p, a))
      launch_forward_time(p, a, cut);
    else
      launch_forward_any(p, a, cut);
  });
}

void forward_any(Problem const& p, ForwardArgs const& a) {
  run(p, a, [&](Cut const& cut) { launch_forward_any(p, a, cut); });
}

}  // namespace faltung::causal_conv1d::cuda
