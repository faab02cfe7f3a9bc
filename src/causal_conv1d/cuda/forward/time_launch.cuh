// How forward_time_kernel is launched, for the widths that a translation unit compiles.
#pragma once
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "causal_conv1d/cuda/forward/time.cuh"
#include "causal_conv1d/cuda/shares.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

template <typename Storage, int Width, bool cuts>
void launch_forward_time_kernel(TimeForward call, cudaStream_t stream) {
  auto const& p = call.problem;
  constexpr int all = 32 * vector_elements<Storage>;
  call.channel_blocks = (p.channels + time_forward_channels - 1) / time_forward_channels;
  call.share = share_of(p.time, p.batch * call.channel_blocks, 1, 1,
                        time_forward_blocks<cuts> * faltung::cuda::multiprocessors(), cuts ? 4 * all : all / 2, all,
                        cuts ? marked_steps * all : INT64_MAX);
  call.row_shares = (p.time + call.share - 1) / call.share;
  auto const blocks = p.batch * call.channel_blocks * call.row_shares;
  // Every fourth vector or more is touched.
  call.all_young = p.cut == Sequences::packed && p.sequences * 4 > p.time / vector_elements<Storage>;
  faltung::cuda::launch<forward_time_kernel<Storage, Width, cuts>>(
      "causal_conv1d forward, time",
      {.grid = dim3(unsigned(blocks)), .threads = time_forward_threads<cuts>, .stream = stream, .starts_early = true},
      call);
}

template <int... widths>
void launch_forward_time_widths(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  visit_widths<widths...>(p, [&]<typename Storage, int Width> {
    TimeForward const call{
        .problem = p, .args = a, .cut = cut, .share = 0, .row_shares = 0, .channel_blocks = 0, .all_young = false};
    if (p.cut == Sequences::whole)
      launch_forward_time_kernel<Storage, Width, false>(call, stream_of(a.runtime));
    else
      launch_forward_time_kernel<Storage, Width, true>(call, stream_of(a.runtime));
  });
}

}  // namespace faltung::causal_conv1d::cuda
