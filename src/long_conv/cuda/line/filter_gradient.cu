// Launches filter_gradient.cuh for the dtypes of a problem.
#include "cuda/launch.cuh"
#include "long_conv/cuda/line/choice.hpp"
#include "long_conv/cuda/line/filter_gradient.cuh"
#include "long_conv/cuda/line/launch.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::line {
namespace {

template <typename Element, typename Tap>
void run(Problem const& p, ConstView const& dy, ConstView const& x, View const& dk, cudaStream_t stream) {
  auto const shape = *gradient_shape(p);
  GradientLayout const layout(shape);
  std::size_t const bytes = gradient_bytes(shape);
  auto const [warps, blocks] =
      occupancy_of(shape, layout.groups * layout.shares, bytes, gradient_registers, most_gradient_threads / 32);
  GradientArgs<Element, Tap> args{.shape = shape,
                                  .layout = layout,
                                  .dy = toeplitz::make_tensor<Element const*>(dy, p.axes[2].extent, 8),
                                  .x = toeplitz::make_tensor<Element const*>(x, p.axes[2].extent, 8),
                                  .dk = toeplitz::make_tensor<Tap*>(dk, p.axes[2].filter, 1),
                                  .ahead = blocks * faltung::cuda::multiprocessors()};
  args.dk.row = p.axes[2].filter;  // there is one row
  faltung::cuda::launch<gradient_kernel<Element, Tap>>("cuda.line filter gradient",
                                                       {.grid = grid_of(p, shape.per_sample ? 1 : p.batch),
                                                        .threads = unsigned(32 * warps),
                                                        .shared_bytes = bytes,
                                                        .stream = stream,
                                                        .starts_early = true},
                                                       args);
}

}  // namespace

void filter_gradient(Problem const& p, ConstView const& dy, ConstView const& x, View const& dk, cudaStream_t stream) {
  auto const run_types = p.x_dtype == FALTUNG_F16 ? run<__half, __half>
                         : is_split(p)            ? run<__nv_bfloat16, float>
                                                  : run<__nv_bfloat16, __nv_bfloat16>;
  run_types(p, dy, x, dk, stream);
}

}  // namespace faltung::long_conv::cuda::line
