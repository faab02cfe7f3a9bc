// Launches forward.cuh for a dtype and a policy.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/forward.cuh"
#include "long_conv/cuda/toeplitz/split.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"
#include "long_conv/cuda/toeplitz/toeplitz.hpp"

namespace faltung::long_conv::cuda::toeplitz {
namespace {

template <typename Element>
void run(Problem const& p, ForwardArgs const& a) {
  ForwardKernelArgs<Element> const args{.shape = make_shape(p),
                                        .x = make_tensor<Element const*>(a.x, p.axes[2].extent, 8),
                                        .k = make_tensor<Element const*>(a.k, p.axes[2].filter, 1),
                                        .shortcut = {a.shortcut.data, a.shortcut.stride, p.shortcut_dtype},
                                        .y = make_tensor<Element*>(a.y, p.axes[2].extent, 4)};
  auto const tiles = choose_policy(p).tiles;
  std::int64_t const groups = (p.batch + args.shape.images_per_filter - 1) / args.shape.images_per_filter;
  constexpr std::int64_t most_columns = 1 << 30, most_rows = 65535;
  dim3 const grid(unsigned(std::min(p.channels, most_columns)), unsigned(std::min(groups, most_rows)));
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  auto const launch = [&]<int count, bool whole> {
    faltung::cuda::launch<forward_kernel<Element, count, whole>>("cuda.toeplitz forward",
                                                                 {.grid = grid,
                                                                  .threads = threads<count>,
                                                                  .shared_bytes = forward_bytes(args.shape, tiles),
                                                                  .stream = stream,
                                                                  .starts_early = true},
                                                                 args);
  };
  if (is_whole(p) && is_contiguous(args.x, 16) && is_contiguous(args.k, 31) && is_contiguous(args.y, 16))
    launch.template operator()<1, true>();
  else
    visit_int<1, 2, 4>(tiles, "tiles", [&]<int count> { launch.template operator()<count, false>(); });
}

}  // namespace

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  if (is_split(p))
    split_forward(p, a);
  else if (p.x_dtype == FALTUNG_BF16)
    run<__nv_bfloat16>(p, a);
  else
    run<__half>(p, a);
}

}  // namespace faltung::long_conv::cuda::toeplitz
