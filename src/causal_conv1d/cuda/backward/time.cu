// Launches backward_time_kernel for the narrower filters.
#include "causal_conv1d/cuda/backward/time_launch.cuh"
#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/shares.hpp"

namespace faltung::causal_conv1d::cuda {

TimeBackwardPolicy time_backward_policy(Problem const& p) {
  constexpr int multiprocessors = 132;  // those of an H200, for the same sums everywhere
  bool const cuts = p.cut != Sequences::whole;
  int const warps = time_backward_threads(cuts) / 32;
  std::int64_t const all = 32 * (16 / size_of(p.x_dtype)),
                     resident = time_backward_blocks(p.width, cuts) * multiprocessors;
  TimeBackwardPolicy policy{};
  policy.channel_blocks = (p.channels + warps - 1) / warps;
  policy.share = share_of(p.time, p.batch * policy.channel_blocks, 1, 1, resident, 4 * all, all, marked_steps * all);
  policy.row_shares = (p.time + policy.share - 1) / policy.share;
  policy.shares = p.batch * policy.row_shares;
  // Partial sums of long shares weigh nothing beside their tokens.
  constexpr std::int64_t long_share = 1024;
  policy.parts = policy.share >= long_share
                     ? policy.shares
                     : std::min(policy.shares, std::max<std::int64_t>(1, 8 * resident / policy.channel_blocks));
  return policy;
}

bool fits_backward_time(Problem const& p, BackwardArgs const& a) {
  if (!tuned(p, tuned_width_along_time) || p.batch == 0 || p.time == 0 || !a.x.data || !a.weight.data) return false;
  return vectors_along_time(p, a.x) && vectors_along_time(p, a.dy) && (!a.dx.data || vectors_along_time(p, a.dx));
}

void launch_backward_time(Problem const& p, BackwardArgs const& a, Cut const& cut, void* partial) {
  if (p.width <= tuned_width)
    launch_backward_time_widths<2, 3, 4>(p, a, cut, partial);
  else
    launch_backward_time_wide(p, a, cut, partial);
}

}  // namespace faltung::causal_conv1d::cuda
