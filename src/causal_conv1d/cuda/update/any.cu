// Launches update_any_kernel.
#include <algorithm>

#include "causal_conv1d/cuda/update/any.cuh"
#include "causal_conv1d/cuda/update/update.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

void launch_update_any(Problem const& p, UpdateArgs const& a, Cut const& cut) {
  constexpr std::int64_t most_blocks = 1 << 30;
  auto const items = (p.sequences + (p.cut == Sequences::packed ? p.time : 0)) * p.channels;
  if (items == 0) return;
  auto const blocks = std::min((items + any_update_threads - 1) / any_update_threads, most_blocks);
  visit_storage(p.x_dtype, [&]<typename Storage> {
    faltung::cuda::launch<update_any_kernel<Storage>>(
        "causal_conv1d update, any",
        {.grid = dim3(unsigned(blocks)), .threads = any_update_threads, .stream = stream_of(a.runtime)},
        AnyUpdate{p, a, cut});
  });
}

}  // namespace faltung::causal_conv1d::cuda
