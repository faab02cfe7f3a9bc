// Launches gradient.cuh.
#pragma once
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral/gradient.cuh"
#include "long_conv/cuda/spectral/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::spectral {

template <int N, typename Element, typename Filter>
void run_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  std::int64_t const columns = p.axes[2].extent;
  GradientKernelArgs<Element, Filter> args{.shape = toeplitz::make_shape(p),
                                           .dy = toeplitz::make_tensor<Element const*>(a.dy, columns, N / 8),
                                           .x = toeplitz::make_tensor<Element const*>(a.x, columns, N / 8),
                                           .dk = toeplitz::make_tensor<Filter*>(a.dk, p.axes[2].filter, 1),
                                           .overlaps = a.dx.data != nullptr};
  args.whole = toeplitz::has_all_lags(p, N) && args.dk.row == 2 * N - 1 && args.dk.column == 1;
  args.dy.vectors &= columns == N;
  args.x.vectors &= columns == N;
  std::int64_t const filters = p.channels * (p.sharing == FilterSharing::shared ? 1 : p.batch);
  std::int64_t const blocks = std::int64_t(faltung::cuda::multiprocessors()) * GradientPlan<N>::blocks;
  visit_int<0, 1>(args.x.vectors && args.dy.vectors, "plain", [&]<int plain> {
    faltung::cuda::launch<gradient_kernel<N, plain, Element, Filter>>(
        "cuda.spectral gradient of the filter",
        {.grid = dim3(unsigned(std::min(filters, blocks))),
         .threads = Plan<N>::threads,
         .shared_bytes = sizeof(GradientShared<N, Element>),
         .stream = stream,
         .starts_early = true},
        args);
  });
}

}  // namespace faltung::long_conv::cuda::spectral
