// Launches filter_gradient.cuh, of short lines together with dx, for the dtypes of a problem.
#include <algorithm>

#include "cuda/launch.cuh"
#include "long_conv/cuda/line/arguments.hpp"
#include "long_conv/cuda/line/filter_gradient.cuh"

namespace faltung::long_conv::cuda::line {
namespace {

// What decides about blocks of dk.
struct Blocks {
  std::size_t bytes;
  Occupancy occupancy;
  explicit Blocks(Problem const& p) {
    auto const shape = *gradient_shape(p);
    GradientLayout const layout(shape);
    bytes = gradient_bytes(shape);
    occupancy =
        occupancy_of(shape, layout.groups * layout.shares, bytes, gradient_registers, most_gradient_threads / 32);
  }
};

template <typename Element, typename Tap>
void run(Problem const& p, ConstView const& dy, ConstView const& x, View const& dk, cudaStream_t stream) {
  Blocks const blocks(p);
  auto const args =
      gradient_args<Element, Tap>(p, dy, x, dk, blocks.occupancy.blocks * faltung::cuda::multiprocessors());
  faltung::cuda::launch<gradient_kernel<Element, Tap>>("cuda.line filter gradient",
                                                       {.grid = grid_of(p, args.shape.per_sample ? 1 : p.batch),
                                                        .threads = unsigned(32 * blocks.occupancy.warps),
                                                        .shared_bytes = blocks.bytes,
                                                        .stream = stream,
                                                        .starts_early = true},
                                                       args);
}

template <typename Element, typename Tap>
void run_backward(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  Blocks const blocks(p);
  auto const dx = product_args<Element, Tap>(p, Turn::transposed, a.dy, a.k, a.shortcut, {}, a.dx);
  auto const dk = gradient_args<Element, Tap>(
      p, a.dy, a.x, a.dk, std::max(1, blocks.occupancy.blocks * faltung::cuda::multiprocessors() / 2));
  auto grid = grid_of(p, p.batch);
  grid.x *= 2;
  faltung::cuda::launch<backward_kernel<Element, Tap>>(
      "cuda.line backward",
      {.grid = grid,
       .threads = unsigned(32 * blocks.occupancy.warps),
       .shared_bytes = std::max(blocks.bytes, product_bytes(dx.shape, sizeof(Tap) / sizeof(Element))),
       .stream = stream,
       .starts_early = true},
      dx, dk);
}

}  // namespace

bool is_short(Problem const& p) {
  constexpr int least_blocks = 3;  // on a multiprocessor
  return p.sharing == FilterSharing::shared && p.batch <= product_shape(p)->images() && p.channels <= 1 << 29 &&
         Blocks(p).occupancy.blocks >= least_blocks;
}

void input_and_filter_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  auto const run_types = p.x_dtype == FALTUNG_F16 ? run_backward<__half, __half>
                         : is_split(p)            ? run_backward<__nv_bfloat16, float>
                                                  : run_backward<__nv_bfloat16, __nv_bfloat16>;
  run_types(p, a, stream);
}

void filter_gradient(Problem const& p, ConstView const& dy, ConstView const& x, View const& dk, cudaStream_t stream) {
  auto const run_types = p.x_dtype == FALTUNG_F16 ? run<__half, __half>
                         : is_split(p)            ? run<__nv_bfloat16, float>
                                                  : run<__nv_bfloat16, __nv_bfloat16>;
  run_types(p, dy, x, dk, stream);
}

}  // namespace faltung::long_conv::cuda::line
