// Launches split_kernels.cuh: y; dx as the y of the transposed product; dk.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral/launch.hpp"
#include "long_conv/cuda/spectral/split_kernels.cuh"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::spectral {

std::size_t split_shared_bytes() { return sizeof(SplitShared); }
std::size_t split_gradient_shared_bytes() { return sizeof(SplitGradientShared); }

void split_multiply(Problem const& p, Product product, ConstView const& x, ConstView const& k,
                    ConstVector const& shortcut, View const& y, cudaStream_t stream) {
  auto const shape = toeplitz::make_shape(p);
  std::int64_t const columns = p.axes[2].extent;
  ForwardKernelArgs<float> args{.shape = product == Product::plain ? shape : shape.transposed(),
                                .x = toeplitz::make_tensor<float const*>(x, columns, 4),
                                .k = toeplitz::make_tensor<float const*>(k, p.axes[2].filter, 1),
                                .shortcut = {shortcut.data, shortcut.stride, p.shortcut_dtype},
                                .y = toeplitz::make_tensor<float*>(y, columns, 4)};
  args.x.vectors &= columns == split_N;
  args.y.vectors &= columns == split_N;
  std::int64_t const items = (p.batch + shape.images_per_filter - 1) / shape.images_per_filter * p.channels;
  std::int64_t const blocks = std::int64_t(faltung::cuda::multiprocessors()) * SplitShared::blocks;
  bool const is_plain = args.x.vectors && args.y.vectors && !shortcut.data;
  visit_int<0, 1>(is_plain, "plain", [&]<int plain> {
    faltung::cuda::launch<split_forward_kernel<plain>>("cuda.spectral fp32",
                                                       {.grid = dim3(unsigned(std::min(items, blocks))),
                                                        .threads = Plan<split_N>::threads,
                                                        .shared_bytes = sizeof(SplitShared),
                                                        .stream = stream,
                                                        .starts_early = true},
                                                       args);
  });
}

void split_filter_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  std::int64_t const columns = p.axes[2].extent;
  GradientKernelArgs<float> args{.shape = toeplitz::make_shape(p),
                                 .dy = toeplitz::make_tensor<float const*>(a.dy, columns, 4),
                                 .x = toeplitz::make_tensor<float const*>(a.x, columns, 4),
                                 .dk = toeplitz::make_tensor<float*>(a.dk, p.axes[2].filter, 1),
                                 .overlaps = a.dx.data != nullptr};
  args.dy.vectors &= columns == split_N;
  args.x.vectors &= columns == split_N;
  std::int64_t const filters = p.channels * (p.sharing == FilterSharing::shared ? 1 : p.batch);
  std::int64_t const blocks = std::int64_t(faltung::cuda::multiprocessors()) * SplitGradientShared::blocks;
  visit_int<0, 1>(args.x.vectors && args.dy.vectors, "plain", [&]<int plain> {
    faltung::cuda::launch<split_gradient_kernel<plain>>("cuda.spectral fp32 gradient of the filter",
                                                        {.grid = dim3(unsigned(std::min(filters, blocks))),
                                                         .threads = Plan<split_N>::threads,
                                                         .shared_bytes = sizeof(SplitGradientShared),
                                                         .stream = stream,
                                                         .starts_early = true},
                                                        args);
  });
}

}  // namespace faltung::long_conv::cuda::spectral
