// Launches the passes over slots.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral_passes/filter_sums.cuh"
#include "long_conv/cuda/spectral_passes/launch.hpp"
#include "long_conv/cuda/spectral_passes/product.cuh"

namespace faltung::long_conv::cuda::spectral_passes {
namespace {

static_assert(sizeof(FilterSumsShared) <= least_shared_memory);

// visit.template operator()<tiles of 16 rows>()
template <typename Visitor>
void visit_tiles(Problem const& p, Visitor const& visit) {
  auto const tiles = (p.axes[1].extent + 15) / 16;
  visit_int<4, 6, 8>(tiles <= 4 ? 4 : tiles <= 6 ? 6 : 8, "tiles", visit);
}

// Slots below 64 whose operands have two halves.
int low_slots_of(Problem const& p) { return p.x_dtype == FALTUNG_F16 ? low_slots : 0; }

template <int tiles, bool two_halves>
void run_products(ProductArgs const& args, cudaStream_t stream) {
  std::int64_t const items = std::int64_t(args.chunk.units()) * args.slots.count;
  faltung::cuda::launch<product_kernel<tiles, two_halves>>(
      "cuda.spectral_passes products",
      {.grid = dim3(unsigned((items + product_warps - 1) / product_warps)),
       .threads = 32 * product_warps,
       .stream = stream,
       .starts_early = true},
      args);
}

template <int tiles, bool two_halves>
void run_sums(SumsArgs const& args, cudaStream_t stream) {
  std::int64_t const items = std::int64_t(args.chunk.filters()) * args.slots.count;
  faltung::cuda::launch<filter_sums_kernel<tiles, two_halves>>(
      "cuda.spectral_passes sums",
      {.grid = dim3(unsigned(
           std::min((items + sum_warps - 1) / sum_warps, sum_blocks * std::int64_t(faltung::cuda::multiprocessors())))),
       .threads = 32 * sum_warps,
       .shared_bytes = sizeof(FilterSumsShared),
       .stream = stream,
       .starts_early = true},
      args);
}

}  // namespace

void launch_products(Problem const& p, Chunk const& chunk, Spectra const& images, Spectra const& filters,
                     cudaStream_t stream) {
  visit_tiles(p, [&]<int tiles> {
    int const low = low_slots_of(p);
    ProductArgs args{chunk, {0, low}, images, filters};
    if (low) run_products<tiles, true>(args, stream);
    args.slots = {low, slots - low};
    run_products<tiles, false>(args, stream);
  });
}

void launch_filter_sums(Problem const& p, Chunk const& chunk, Spectra const& dy, Spectra const& x, Sums const& sums,
                        bool first, int parity, cudaStream_t stream) {
  visit_tiles(p, [&]<int tiles> {
    int const low = low_slots_of(p);
    SumsArgs args{.chunk = chunk, .slots = {0, low}, .dy = dy, .x = x, .sums = sums, .first = first, .parity = parity};
    if (low) run_sums<tiles, true>(args, stream);
    args.slots = {low, slots / 2 - low};
    run_sums<tiles, false>(args, stream);
  });
}

}  // namespace faltung::long_conv::cuda::spectral_passes
