// Launches forward_channels_kernel.
#include <bit>

#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/forward/channels.cuh"
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "causal_conv1d/cuda/shares.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

template <typename Storage, int Width, bool cuts>
void run(ChannelsForward call, cudaStream_t stream) {
  auto const& p = call.problem;
  constexpr int threads = channels_forward_threads, n = vector_elements<Storage>;
  std::int64_t const vectors = p.channels / n;
  call.lanes = int(std::clamp<std::int64_t>(std::bit_ceil(std::uint64_t(vectors)), 32, threads));
  auto const side_by_side = call.side_by_side = (vectors + call.lanes - 1) / call.lanes;
  std::int64_t const shares_per_block = threads / call.lanes;
  call.share = share_of(p.time, p.batch, side_by_side, shares_per_block,
                        channels_forward_blocks * faltung::cuda::multiprocessors(), 12, 1);
  call.row_shares = (p.time + call.share - 1) / call.share;
  auto const blocks = (p.batch * call.row_shares + shares_per_block - 1) / shares_per_block;
  faltung::cuda::launch<forward_channels_kernel<Storage, Width, cuts>>(
      "causal_conv1d forward, channels",
      {.grid = dim3(unsigned(side_by_side * blocks)), .threads = threads, .stream = stream, .starts_early = true},
      call);
}

}  // namespace

bool fits_forward_channels(Problem const& p, ForwardArgs const& a) {
  std::int64_t const n = 16 / size_of(p.x_dtype);
  return tuned(p) && vectors_along_channels(p, a.x, n) && vectors_along_channels(p, a.y, n) &&
         (!a.residual.data || vectors_along_channels(p, a.residual, n));
}

void launch_forward_channels(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  visit_tuned(p, [&]<typename Storage, int Width> {
    ChannelsForward const call{
        .problem = p, .args = a, .cut = cut, .lanes = 0, .side_by_side = 0, .share = 0, .row_shares = 0};
    if (p.cut == Sequences::whole)
      run<Storage, Width, false>(call, stream_of(a.runtime));
    else
      run<Storage, Width, true>(call, stream_of(a.runtime));
  });
}

}  // namespace faltung::causal_conv1d::cuda
