// Launches forward.cuh.
#pragma once
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral/forward.cuh"
#include "long_conv/cuda/spectral/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::spectral {

template <int N, typename Element, typename Filter>
void run_product(Problem const& p, Product product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
                 View const& y, cudaStream_t stream) {
  auto const shape = toeplitz::make_shape(p);
  std::int64_t const columns = p.axes[2].extent;
  ForwardKernelArgs<Element, Filter> args{.shape = product == Product::plain ? shape : shape.transposed(),
                                          .x = toeplitz::make_tensor<Element const*>(x, columns, N / 8),
                                          .k = toeplitz::make_tensor<Filter const*>(k, p.axes[2].filter, 1),
                                          .shortcut = {shortcut.data, shortcut.stride, p.shortcut_dtype},
                                          .y = toeplitz::make_tensor<Element*>(y, columns, N / 8)};
  args.x.vectors &= columns == N;
  args.y.vectors &= columns == N;
  std::int64_t const items = (p.batch + shape.images_per_filter - 1) / shape.images_per_filter * p.channels;
  std::int64_t const blocks = std::int64_t(faltung::cuda::multiprocessors()) * Plan<N>::blocks;
  bool const is_plain = args.x.vectors && args.y.vectors && !shortcut.data;
  visit_int<0, 1>(is_plain, "plain", [&]<int plain> {
    faltung::cuda::launch<forward_kernel<N, plain, Element, Filter>>("cuda.spectral",
                                                                     {.grid = dim3(unsigned(std::min(items, blocks))),
                                                                      .threads = Plan<N>::threads,
                                                                      .shared_bytes = sizeof(Shared<N, Element>),
                                                                      .stream = stream,
                                                                      .starts_early = true},
                                                                     args);
  });
}

}  // namespace faltung::long_conv::cuda::spectral
