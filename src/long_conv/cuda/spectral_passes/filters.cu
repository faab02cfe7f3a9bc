// Launches the passes between filters and their spectra.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral_passes/filter_spectra.cuh"
#include "long_conv/cuda/spectral_passes/filter_taps.cuh"
#include "long_conv/cuda/spectral_passes/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::spectral_passes {
namespace {

static_assert(sizeof(FilterSpectraShared<__half>) <= least_shared_memory &&
              sizeof(FilterTapsShared<__half>) <= least_shared_memory);

// visit.template operator()<Element>()
template <typename Visitor>
void visit_types(Problem const& p, Visitor const& visit) {
  if (p.x_dtype == FALTUNG_F16)
    visit.template operator()<__half>();
  else
    visit.template operator()<__nv_bfloat16>();
}

unsigned persistent_blocks(std::int64_t items, int per_multiprocessor) {
  return unsigned(std::clamp<std::int64_t>(items, 1, faltung::cuda::multiprocessors() * per_multiprocessor));
}

}  // namespace

void launch_filter_spectra(Problem const& p, Chunk const& chunk, Product product, ConstView const& k, Spectra const& to,
                           cudaStream_t stream) {
  auto const shape = toeplitz::make_shape(p);
  visit_types(p, [&]<typename Element> {
    FilterSpectraArgs<Element> const args{.shape = product == Product::plain ? shape : shape.transposed(),
                                          .chunk = chunk,
                                          .k = toeplitz::make_tensor<Element const*>(k, p.axes[2].filter, 1),
                                          .to = to};
    bool const linear = !shape.rows.circular && !shape.columns.circular && args.k.column == 1;
    visit_int<0, 1>(linear, "linear", [&]<int linear> {
      faltung::cuda::launch<filter_spectra_kernel<linear, Element>>(
          "cuda.spectral_passes spectra of filters",
          {.grid = dim3(persistent_blocks(chunk.filters(), 2)),
           .threads = threads,
           .shared_bytes = sizeof(FilterSpectraShared<Element>),
           .stream = stream,
           .starts_early = true},
          args);
    });
  });
}

void launch_filter_taps(Problem const& p, Chunk const& chunk, Sums const& sums, int parity, View const& dk,
                        cudaStream_t stream) {
  std::int64_t const groups = p.sharing == FilterSharing::shared ? (p.batch + images - 1) / images : 1;
  int group_headroom = 0;
  while (std::int64_t(1) << group_headroom < groups) ++group_headroom;
  visit_types(p, [&]<typename Element> {
    FilterTapsArgs<Element> const args{.shape = toeplitz::make_shape(p),
                                       .chunk = chunk,
                                       .sums = sums,
                                       .parity = parity,
                                       .group_headroom = group_headroom,
                                       .dk = toeplitz::make_tensor<Element*>(dk, p.axes[2].filter, 1)};
    std::int64_t const bands = (p.axes[1].filter + rows_at_once - 1) / rows_at_once;
    int const kind = int(sums.words                 ? SumKind::words
                         : args.shape.rows.circular ? SumKind::circular_values
                                                    : SumKind::values);
    visit_int<0, 1, 2>(kind, "kind of sums", [&]<int kind> {
      faltung::cuda::launch<filter_taps_kernel<SumKind(kind), Element>>(
          "cuda.spectral_passes gradients of filters",
          {.grid = dim3(persistent_blocks(bands * chunk.filters(), (tap_blocks<SumKind(kind), Element>))),
           .threads = 32 * tap_warps,
           .shared_bytes = sizeof(FilterTapsShared<Element>),
           .stream = stream,
           .starts_early = true},
          args);
    });
  });
}

}  // namespace faltung::long_conv::cuda::spectral_passes
