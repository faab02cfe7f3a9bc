// Chooses the division of work of convolve.cuh and launches it.
#include <algorithm>
#include <bit>

#include "cuda/launch.cuh"
#include "long_conv/cuda/direct/convolve.cuh"

namespace faltung::long_conv::cuda::direct {

DirectPolicy choose_policy(ConvolutionAxis const (&axes)[3], std::int64_t reduction) {
  constexpr std::int64_t most_threads = 128, most_splits = 32;
  auto const power = [](std::int64_t value, std::int64_t limit) {
    return int(std::bit_ceil(std::uint64_t(std::clamp<std::int64_t>(value, 1, limit))));
  };
  DirectPolicy policy{};
  policy.width = power((axes[2].out + outputs - 1) / outputs, most_threads);
  auto const rows_left = most_threads / policy.width;
  policy.rows = power(std::min(axes[0].out, rows_left) * std::min(axes[1].out, rows_left), rows_left);
  // Saturating: the product of the taps of huge axes is only compared with a small limit.
  auto const capped = [](std::int64_t a, std::int64_t b) {
    return std::min<std::int64_t>(a, 64) * std::min<std::int64_t>(b, 64);
  };
  auto const steps =
      capped(capped(reduction, axes[0].filter), capped(axes[1].filter, (axes[2].filter + chunk - 1) / chunk));
  policy.splits = power(steps, std::min(most_splits, rows_left / policy.rows));
  return policy;
}

namespace {

template <typename Compute>
void run(Convolution const& p, cudaStream_t stream) {
  auto const policy = choose_policy(p.axes, p.reduction);
  std::int64_t const tile = outputs * policy.width, out_rows = p.axes[0].out * p.axes[1].out;
  std::int64_t const items =
      (p.axes[2].out + tile - 1) / tile * ((out_rows + policy.rows - 1) / policy.rows) * p.channels * p.batch;
  constexpr std::int64_t most_blocks = 1 << 30;
  faltung::cuda::launch<convolve_kernel<Compute>>("cuda.direct",
                                                  {.grid = dim3(unsigned(std::min(items, most_blocks))),
                                                   .threads = unsigned(policy.threads()),
                                                   .shared_bytes = shared_bytes<Compute>(policy),
                                                   .stream = stream},
                                                  p, policy);
}

}  // namespace

void convolve(Convolution const& p, Compute compute, cudaStream_t stream) {
  if (compute == Compute::twice)
    run<double>(p, stream);
  else
    run<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::direct
