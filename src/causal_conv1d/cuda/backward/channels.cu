// Launches backward_channels_kernel.
#include <algorithm>
#include <bit>

#include "causal_conv1d/cuda/backward/channels.cuh"
#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/shares.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

ChannelsBackwardPolicy channels_backward_policy(Problem const& p) {
  constexpr int threads = channels_backward_threads, group = channels_backward_group,
                multiprocessors = 132;  // those of an H200, for the same sums everywhere
  ChannelsBackwardPolicy policy{};
  std::int64_t const vectors = (p.channels + channels_elements - 1) / channels_elements, before = p.width - 1;
  policy.lane_bits = std::countr_zero(std::clamp<std::uint64_t>(std::bit_ceil(std::uint64_t(vectors)), 32, threads));
  policy.side_by_side = (vectors + (1 << policy.lane_bits) - 1) >> policy.lane_bits;
  std::int64_t const shares_per_block = threads >> policy.lane_bits,
                     resident = channels_backward_blocks(size_of(p.x_dtype)) * multiprocessors;
  auto const share = share_of(p.time, p.batch, policy.side_by_side, shares_per_block, resident, 16, 1);
  policy.share = (share + before + group - 1) / group * group - before;  // whole groups
  policy.row_shares = (p.time + policy.share - 1) / policy.share;
  policy.shares = p.batch * policy.row_shares;
  policy.parts = (policy.shares + shares_per_block - 1) / shares_per_block;
  return policy;
}

bool fits_backward_channels(Problem const& p, BackwardArgs const& a) {
  if (!tuned(p) || p.batch == 0 || p.time == 0 || !a.x.data || !a.weight.data || a.dresidual.data ||
      (a.dfinal_state.data && a.dfinal_state.columns != p.width - 1))
    return false;
  return vectors_along_channels(p, a.x, 4) && vectors_along_channels(p, a.dy, 4) &&
         (!a.dx.data || vectors_along_channels(p, a.dx, 4));
}

void launch_backward_channels(Problem const& p, BackwardArgs const& a, Cut const& cut, void* partial) {
  std::int64_t const n = 16 / size_of(p.x_dtype);
  ChannelsBackward const call{.problem = p,
                              .args = a,
                              .cut = cut,
                              .policy = channels_backward_policy(p),
                              .wide = vectors_along_channels(p, a.x, n) && vectors_along_channels(p, a.dy, n),
                              .partial = static_cast<float*>(partial)};
  visit_tuned(p, [&]<typename Storage, int Width> {
    constexpr std::size_t warps = channels_backward_threads / 32;
    faltung::cuda::LaunchShape const shape{
        .grid = dim3(unsigned(call.policy.parts * call.policy.side_by_side)),
        .threads = channels_backward_threads,
        .shared_bytes = sizeof(ChannelsBackwardSums<Width>) + warps * 2 * ChannelsBackwardRows<Storage>::bytes,
        .stream = stream_of(a.runtime),
        .starts_early = true};
    if (p.cut == Sequences::whole)
      faltung::cuda::launch<backward_channels_kernel<Storage, Width, false>>("causal_conv1d backward, channels", shape,
                                                                             call);
    else
      faltung::cuda::launch<backward_channels_kernel<Storage, Width, true>>("causal_conv1d backward, channels", shape,
                                                                            call);
  });
}

}  // namespace faltung::causal_conv1d::cuda
