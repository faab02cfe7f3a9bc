// Launches forward_any_kernel.
#include <algorithm>

#include "causal_conv1d/cuda/forward/any.cuh"
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

void launch_forward_any(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  constexpr std::int64_t most_blocks = 1 << 30;
  AnyForward const call{
      .problem = p,
      .args = a,
      .cut = cut,
      .fastest = p.unit_stride == UnitStride::time && p.time >= 32 ? Fastest::time : Fastest::channels,
      .groups = (p.time + tokens_per_thread - 1) / tokens_per_thread};
  auto const items = p.batch * call.groups * p.channels;
  if (items == 0) return;
  auto const blocks = std::min((items + any_threads - 1) / any_threads, most_blocks);
  visit_storage(p.x_dtype, [&]<typename Storage> {
    faltung::cuda::launch<forward_any_kernel<Storage>>(
        "causal_conv1d forward, any",
        {.grid = dim3(unsigned(blocks)), .threads = any_threads, .stream = stream_of(a.runtime)}, call);
  });
}

}  // namespace faltung::causal_conv1d::cuda
