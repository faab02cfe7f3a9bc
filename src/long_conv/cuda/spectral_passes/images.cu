// Launches the passes between images and their spectra.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/launch.cuh"
#include "long_conv/cuda/spectral/launch.hpp"
#include "long_conv/cuda/spectral_passes/image_grids.cuh"
#include "long_conv/cuda/spectral_passes/image_spectra.cuh"
#include "long_conv/cuda/spectral_passes/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::spectral_passes {
namespace {

constexpr int blocks_per_multiprocessor = 2;
static_assert(sizeof(ImageSpectraShared<__half>) <= least_shared_memory &&
              sizeof(ImageGridShared<__half>) <= least_shared_memory);

unsigned persistent_blocks(std::int64_t items) {
  return unsigned(std::clamp<std::int64_t>(items, 1, faltung::cuda::multiprocessors() * blocks_per_multiprocessor));
}

}  // namespace

void launch_image_spectra(Problem const& p, Chunk const& chunk, ConstView const& x, Spectra const& to,
                          cudaStream_t stream) {
  spectral::visit_element(p.x_dtype, [&]<typename Element> {
    ImageSpectraArgs<Element> const args{.shape = toeplitz::make_shape(p),
                                         .chunk = chunk,
                                         .x = toeplitz::make_tensor<Element const*>(x, p.axes[2].extent, 8),
                                         .to = to};
    visit_int<0, 1>(args.x.vectors, "vectors", [&]<int vectors> {
      faltung::cuda::launch<image_spectra_kernel<vectors, Element>>(
          "cuda.spectral_passes spectra of images",
          {.grid = dim3(persistent_blocks((std::int64_t(chunk.places()) + 1) / 2)),
           .threads = threads,
           .shared_bytes = sizeof(ImageSpectraShared<Element>),
           .stream = stream,
           .starts_early = true},
          args);
    });
  });
}

void launch_image_grids(Problem const& p, Chunk const& chunk, Spectra const& spectra, int const* filter_exponents,
                        ConstView const& x, ConstVector const& shortcut, View const& y, cudaStream_t stream) {
  spectral::visit_element(p.x_dtype, [&]<typename Element> {
    ImageGridArgs<Element> const args{.shape = toeplitz::make_shape(p),
                                      .chunk = chunk,
                                      .spectra = spectra,
                                      .filter_exponents = filter_exponents,
                                      .x = toeplitz::make_tensor<Element const*>(x, p.axes[2].extent, 8),
                                      .shortcut = {shortcut.data, shortcut.stride, p.shortcut_dtype},
                                      .y = toeplitz::make_tensor<Element*>(y, p.axes[2].extent, 8)};
    visit_int<0, 1>(args.y.vectors, "vectors", [&]<int vectors> {
      faltung::cuda::launch<image_grid_kernel<vectors, Element>>("cuda.spectral_passes images",
                                                                 {.grid = dim3(persistent_blocks(chunk.places())),
                                                                  .threads = threads,
                                                                  .shared_bytes = sizeof(ImageGridShared<Element>),
                                                                  .stream = stream,
                                                                  .starts_early = true},
                                                                 args);
    });
  });
}

}  // namespace faltung::long_conv::cuda::spectral_passes
