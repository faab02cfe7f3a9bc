// Launches backward_time_kernel.
#include "causal_conv1d/cuda/backward/time.cuh"
#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/shares.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

TimeBackwardPolicy time_backward_policy(Problem const& p) {
  constexpr int warps = time_backward_threads / 32,
                multiprocessors = 132;  // those of an H200, for the same sums everywhere
  std::int64_t const all = 32 * (16 / size_of(p.x_dtype)), resident = time_backward_blocks * multiprocessors;
  TimeBackwardPolicy policy{};
  policy.share = share_of(p.time, p.batch * p.channels, 1, warps, resident, all / 2, all);
  policy.row_shares = (p.time + policy.share - 1) / policy.share;
  policy.shares = p.batch * policy.row_shares;
  policy.parts = std::min(policy.shares, std::max<std::int64_t>(1, 2 * resident * warps / p.channels));
  return policy;
}

bool fits_backward_time(Problem const& p, BackwardArgs const& a) {
  if (!tuned(p) || p.batch == 0 || p.time == 0 || !a.x.data || !a.weight.data || a.dresidual.data ||
      a.dfinal_state.data)
    return false;
  return vectors_along_time(p, a.x) && vectors_along_time(p, a.dy) && (!a.dx.data || vectors_along_time(p, a.dx));
}

void launch_backward_time(Problem const& p, BackwardArgs const& a, Cut const& cut, void* partial) {
  TimeBackward const call{
      .problem = p, .args = a, .cut = cut, .policy = time_backward_policy(p), .partial = static_cast<float*>(partial)};
  constexpr int warps = time_backward_threads / 32;
  faltung::cuda::LaunchShape const shape{.grid = dim3(unsigned((p.channels * call.policy.parts + warps - 1) / warps)),
                                         .threads = time_backward_threads,
                                         .stream = stream_of(a.runtime),
                                         .starts_early = true};
  visit_tuned(p, [&]<typename Storage, int Width> {
    if (p.cut == Sequences::whole)
      faltung::cuda::launch<backward_time_kernel<Storage, Width, false>>("causal_conv1d backward, time", shape, call);
    else
      faltung::cuda::launch<backward_time_kernel<Storage, Width, true>>("causal_conv1d backward, time", shape, call);
  });
}

}  // namespace faltung::causal_conv1d::cuda
