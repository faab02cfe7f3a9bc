// Launches backward.cuh for a dtype and a policy.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/toeplitz/backward.cuh"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/split.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"
#include "long_conv/cuda/toeplitz/toeplitz.hpp"

namespace faltung::long_conv::cuda::toeplitz {
namespace {

template <typename Element>
void run(Problem const& p, BackwardArgs const& a) {
  BackwardKernelArgs<Element> const args{.shape = make_shape(p),
                                         .dy = make_tensor<Element const*>(a.dy, p.axes[2].extent, 8),
                                         .x = make_tensor<Element const*>(a.x, p.axes[2].extent, 8),
                                         .k = make_tensor<Element const*>(a.k, p.axes[2].filter, 1),
                                         .shortcut = {a.shortcut.data, a.shortcut.stride, p.shortcut_dtype},
                                         .dx = make_tensor<Element*>(a.dx, p.axes[2].extent, 4),
                                         .dk = make_tensor<Element*>(a.dk, p.axes[2].filter, 1)};
  auto const tiles = choose_policy(p).tiles;
  std::int64_t const samples = args.shape.images_per_filter == 1 ? p.batch : 1;
  constexpr std::int64_t most_columns = 1 << 30, most_rows = 65535;
  dim3 const grid(unsigned(std::min(p.channels, most_columns)), unsigned(std::min(samples, most_rows)));
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  auto const launch = [&]<int count, bool whole> {
    faltung::cuda::launch<backward_kernel<Element, count, whole>>(
        "cuda.toeplitz backward",
        {.grid = grid,
         .threads = threads<count>,
         .shared_bytes = backward_bytes(args.shape, tiles, a.dx.data, a.dk.data),
         .stream = stream,
         .starts_early = true},
        args);
  };
  if (is_whole(p) && is_contiguous(args.dy, 16) && is_contiguous(args.x, 16) && is_contiguous(args.k, 31) &&
      is_contiguous(args.dx, 16) && is_contiguous(args.dk, 31))
    launch.template operator()<1, true>();
  else
    visit_int<1, 2, 4>(tiles, "tiles", [&]<int count> { launch.template operator()<count, false>(); });
}

}  // namespace

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto const run_part = [&](BackwardArgs const& part) {
    if (p.x_dtype == FALTUNG_BF16)
      run<__nv_bfloat16>(p, part);
    else
      run<__half>(p, part);
  };
  if (is_split(p)) {
    split_backward(p, a);
  } else if (a.dx.data && a.dk.data && !choose_policy(p).one_launch) {
    auto part = a;
    part.dk = {};
    run_part(part);
    part.dk = a.dk, part.dx = {};
    run_part(part);
  } else if (a.dx.data || a.dk.data) {
    run_part(a);
  }
  if (a.dshortcut.data) shortcut_gradient(p, a, static_cast<cudaStream_t>(a.runtime.stream));
}

}  // namespace faltung::long_conv::cuda::toeplitz
