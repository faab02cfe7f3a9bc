// Launches product.cuh for the dtypes of a problem.
#include "cuda/launch.cuh"
#include "long_conv/cuda/line/arguments.hpp"
#include "long_conv/cuda/line/product.cuh"

namespace faltung::long_conv::cuda::line {
namespace {

template <typename Element, typename Tap>
void run(Problem const& p, Turn turn, ConstView const& from, ConstView const& k, ConstVector const& shortcut,
         Sums const& sums, View const& to, cudaStream_t stream) {
  auto const args = product_args<Element, Tap>(p, turn, from, k, shortcut, sums, to);
  auto const& shape = args.shape;
  std::size_t const bytes = product_bytes(shape, sizeof(Tap) / sizeof(Element));
  int const groups = (shape.chunks() + shape.segments() - 1) / shape.segments();
  faltung::cuda::launch<product_kernel<Element, Tap>>(
      "cuda.line product",
      {.grid = grid_of(p, shape.images()),
       .threads = unsigned(32 * occupancy_of(shape, groups, bytes, product_registers, most_threads / 32).warps),
       .shared_bytes = bytes,
       .stream = stream,
       .starts_early = true},
      args);
}

}  // namespace

void convolve(Problem const& p, Turn turn, ConstView const& from, ConstView const& k, ConstVector const& shortcut,
              Sums const& sums, View const& to, cudaStream_t stream) {
  auto const run_types = p.x_dtype == FALTUNG_F16 ? run<__half, __half>
                         : is_split(p)            ? run<__nv_bfloat16, float>
                                                  : run<__nv_bfloat16, __nv_bfloat16>;
  run_types(p, turn, from, k, shortcut, sums, to, stream);
}

}  // namespace faltung::long_conv::cuda::line
