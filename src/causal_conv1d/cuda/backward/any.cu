// Launches backward_any_kernel.
#include <algorithm>

#include "causal_conv1d/cuda/backward/any.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {

AnyBackwardPolicy any_backward_policy(Problem const& p) {
  // At most 96 KB of shared memory, which every device has.
  bool const twice = p.x_dtype == FALTUNG_F64;
  AnyBackwardPolicy policy{};
  policy.tokens = any_backward_tokens;
  policy.channels = p.width <= 32 && !twice ? 32 : p.width <= 64 || (p.width <= 128 && !twice) ? 16 : 8;
  policy.along_time = p.unit_stride == UnitStride::time && p.time >= 32;
  policy.time_tiles = (p.time + policy.tokens - 1) / policy.tokens;
  policy.tiles = p.batch * policy.time_tiles;
  policy.channel_tiles = (p.channels + policy.channels - 1) / policy.channels;
  // Four blocks for each multiprocessor of a large device.
  constexpr std::int64_t blocks = 528;
  policy.parts = std::min(policy.tiles, std::max<std::int64_t>(1, (blocks + policy.channel_tiles - 1) /
                                                                      std::max<std::int64_t>(1, policy.channel_tiles)));
  return policy;
}

void launch_backward_any(Problem const& p, BackwardArgs const& a, Cut const& cut, void* partial) {
  AnyBackward const call{.problem = p, .args = a, .cut = cut, .policy = any_backward_policy(p), .partial = partial};
  auto const& policy = call.policy;
  if (policy.tiles == 0) return;
  std::size_t const reach = policy.tokens + p.width - 1, n = policy.channels;
  visit_storage(p.x_dtype, [&]<typename Storage> {
    auto const bytes = (p.width + 1) * n * sizeof(double) + reach * sizeof(std::int64_t) +
                       ((reach + p.width - 1) + reach + p.width + 1) * n * sizeof(Real<Storage>) + reach * sizeof(int);
    faltung::cuda::launch<backward_any_kernel<Storage>>("causal_conv1d backward, any",
                                                        {.grid = dim3(unsigned(policy.channel_tiles * policy.parts)),
                                                         .threads = any_backward_threads,
                                                         .shared_bytes = bytes,
                                                         .stream = stream_of(a.runtime)},
                                                        call);
  });
}

}  // namespace faltung::causal_conv1d::cuda
