// How backward_time_kernel is launched, for the widths that a translation unit compiles.
#pragma once
#include "causal_conv1d/cuda/backward/time.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

template <int... widths>
void launch_backward_time_widths(Problem const& p, BackwardArgs const& a, Cut const& cut, void* partial) {
  TimeBackward const call{
      .problem = p, .args = a, .cut = cut, .policy = time_backward_policy(p), .partial = static_cast<float*>(partial)};
  faltung::cuda::LaunchShape const shape{.grid = dim3(unsigned(call.policy.channel_blocks * call.policy.parts)),
                                         .threads = unsigned(time_backward_threads(p.cut != Sequences::whole)),
                                         .stream = stream_of(a.runtime),
                                         .starts_early = true};
  visit_widths<widths...>(p, [&]<typename Storage, int Width> {
    if (p.cut == Sequences::whole)
      faltung::cuda::launch<backward_time_kernel<Storage, Width, false>>("causal_conv1d backward, time", shape, call);
    else
      faltung::cuda::launch<backward_time_kernel<Storage, Width, true>>("causal_conv1d backward, time", shape, call);
  });
}

}  // namespace faltung::causal_conv1d::cuda
