// Launches split_kernels.cuh: y; dx as the y of the transposed product; dk.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/split.hpp"
#include "long_conv/cuda/toeplitz/split_kernels.cuh"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::toeplitz {
namespace {

constexpr std::int64_t most_columns = 1 << 30, most_rows = 65535;

// visit.template operator()<X>() with the kernels' type of x; filters are fp32.
template <typename Visitor>
void visit_images(Problem const& p, Visitor const& visit) {
  if (p.x_dtype == FALTUNG_F32)
    visit.template operator()<float>();
  else if (p.x_dtype == FALTUNG_BF16)
    visit.template operator()<__nv_bfloat16>();
  else
    visit.template operator()<__half>();
}

template <typename X>
void multiply(Problem const& p, Shape const& shape, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
              View const& y, bool is_overlapped, cudaStream_t stream) {
  SplitForwardArgs<X, float> const args{.shape = shape,
                                        .x = make_tensor<X const*>(x, p.axes[2].extent, 4),
                                        .k = make_tensor<float const*>(k, p.axes[2].filter, 1),
                                        .shortcut = {shortcut.data, shortcut.stride, p.shortcut_dtype},
                                        .y = make_tensor<X*>(y, p.axes[2].extent, 4),
                                        .is_overlapped = is_overlapped};
  std::int64_t const groups = (p.batch + shape.images_per_filter - 1) / shape.images_per_filter;
  dim3 const grid(unsigned(std::min(p.channels, most_columns)), unsigned(std::min(groups, most_rows)));
  visit_int<1, 2>(choose_policy(p).tiles, "tiles", [&]<int tiles> {
    faltung::cuda::launch<split_forward_kernel<tiles, X, float>>("cuda.toeplitz fp32",
                                                                 {.grid = grid,
                                                                  .threads = threads<tiles>,
                                                                  .shared_bytes = split_forward_bytes(shape, tiles),
                                                                  .stream = stream,
                                                                  .starts_early = true},
                                                                 args);
  });
}

template <typename X>
void gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  auto const shape = make_shape(p);
  SplitGradientArgs<X, float> const args{.shape = shape,
                                         .dy = make_tensor<X const*>(a.dy, p.axes[2].extent, 4),
                                         .x = make_tensor<X const*>(a.x, p.axes[2].extent, 4),
                                         .dk = make_tensor<float*>(a.dk, p.axes[2].filter, 1),
                                         .overlaps = a.dx.data != nullptr};
  std::int64_t const samples = shape.images_per_filter == 1 ? p.batch : 1;
  dim3 const grid(unsigned(std::min(p.channels, most_columns)), unsigned(std::min(samples, most_rows)));
  visit_int<1, 2>(choose_policy(p).tiles, "tiles", [&]<int tiles> {
    faltung::cuda::launch<split_gradient_kernel<tiles, X, float>>("cuda.toeplitz fp32 gradient of the filter",
                                                                  {.grid = grid,
                                                                   .threads = threads<tiles>,
                                                                   .shared_bytes = split_gradient_bytes(shape, tiles),
                                                                   .stream = stream,
                                                                   .starts_early = true},
                                                                  args);
  });
}

}  // namespace

void split_forward(Problem const& p, ForwardArgs const& a) {
  visit_images(p, [&]<typename X> {
    multiply<X>(p, make_shape(p), a.x, a.k, a.shortcut, a.y, false, static_cast<cudaStream_t>(a.runtime.stream));
  });
}

void split_backward(Problem const& p, BackwardArgs const& a) {
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  visit_images(p, [&]<typename X> {
    if (a.dx.data)
      multiply<X>(p, make_shape(p).transposed(), a.dy, a.k, a.shortcut, a.dx, a.dk.data != nullptr, stream);
    if (a.dk.data) gradient<X>(p, a, stream);
  });
}

}  // namespace faltung::long_conv::cuda::toeplitz
