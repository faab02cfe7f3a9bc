// Launches gradient.cuh for a padded extent.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral/gradient.cuh"
#include "long_conv/cuda/spectral/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::spectral {

std::size_t gradient_shared_bytes(int padded_extent) {
  return padded_extent == 32 ? sizeof(GradientShared<32>) : sizeof(GradientShared<64>);
}

void filter_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  using Element = __nv_bfloat16;
  visit_int<32, 64>(padded_extent(p), "padded extent", [&]<int N> {
    std::int64_t const columns = p.axes[2].extent;
    GradientKernelArgs<Element> args{.shape = toeplitz::make_shape(p),
                                     .dy = toeplitz::make_tensor<Element const*>(a.dy, columns, N / 8),
                                     .x = toeplitz::make_tensor<Element const*>(a.x, columns, N / 8),
                                     .dk = toeplitz::make_tensor<Element*>(a.dk, p.axes[2].filter, 1)};
    args.dy.vectors &= columns == N;
    args.x.vectors &= columns == N;
    std::int64_t const blocks = std::int64_t(faltung::cuda::multiprocessors()) * GradientPlan<N>::blocks;
    visit_int<0, 1>(args.x.vectors && args.dy.vectors, "plain", [&]<int plain> {
      faltung::cuda::launch<gradient_kernel<N, plain, Element>>("cuda.spectral gradient of the filter",
                                                                {.grid = dim3(unsigned(std::min(p.channels, blocks))),
                                                                 .threads = Plan<N>::threads,
                                                                 .shared_bytes = sizeof(GradientShared<N>),
                                                                 .stream = stream,
                                                                 .starts_early = true},
                                                                args);
    });
  });
}

}  // namespace faltung::long_conv::cuda::spectral
