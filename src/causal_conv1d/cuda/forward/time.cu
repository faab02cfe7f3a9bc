// Launches forward_time_kernel.
#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "causal_conv1d/cuda/forward/time.cuh"
#include "causal_conv1d/cuda/shares.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

template <typename Storage, int Width, bool cuts>
void run(TimeForward call, cudaStream_t stream) {
  auto const& p = call.problem;
  constexpr int warps = time_forward_threads / 32, all = 32 * vector_elements<Storage>;
  // A block's warps take other channels, or other shares of the same one.
  call.share = share_of(p.time, p.batch * p.channels, 1, warps,
                        time_forward_blocks<cuts> * faltung::cuda::multiprocessors(), all / 2, all);
  call.row_shares = (p.time + call.share - 1) / call.share;
  auto const blocks = (p.batch * p.channels * call.row_shares + warps - 1) / warps;
  faltung::cuda::launch<forward_time_kernel<Storage, Width, cuts>>(
      "causal_conv1d forward, time",
      {.grid = dim3(unsigned(blocks)), .threads = time_forward_threads, .stream = stream, .starts_early = true}, call);
}

}  // namespace

bool fits_forward_time(Problem const& p, ForwardArgs const& a) {
  return tuned(p) && vectors_along_time(p, a.x) && vectors_along_time(p, a.y) &&
         (!a.residual.data || vectors_along_time(p, a.residual));
}

void launch_forward_time(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  visit_tuned(p, [&]<typename Storage, int Width> {
    TimeForward const call{.problem = p, .args = a, .cut = cut, .share = 0, .row_shares = 0};
    if (p.cut == Sequences::whole)
      run<Storage, Width, false>(call, stream_of(a.runtime));
    else
      run<Storage, Width, true>(call, stream_of(a.runtime));
  });
}

}  // namespace faltung::causal_conv1d::cuda
