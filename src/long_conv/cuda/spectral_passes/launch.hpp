// The passes, as the host launches them. `Product::transposed`: filters as dx wants them.
#pragma once
#include <cuda_runtime_api.h>

#include "long_conv/cuda/spectral_passes/plan.hpp"
#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::spectral_passes {

enum class Product { plain, transposed };

void launch_image_spectra(Problem const&, Chunk const&, ConstView const& x, Spectra const& to, cudaStream_t);
void launch_image_grids(Problem const&, Chunk const&, Spectra const& spectra, int const* filter_exponents,
                        ConstView const& x, ConstVector const& shortcut, View const& y, cudaStream_t);
void launch_filter_spectra(Problem const&, Chunk const&, Product, ConstView const& k, Spectra const& to, cudaStream_t);
void launch_products(Problem const&, Chunk const&, Spectra const& images, Spectra const& filters, cudaStream_t);

// Adds what the chunk's images contribute; `parity` alternates from chunk to chunk of a filter's images.
void launch_filter_sums(Problem const&, Chunk const&, Spectra const& dy, Spectra const& x, Sums const&, bool first,
                        int parity, cudaStream_t);
void launch_filter_taps(Problem const&, Chunk const&, Sums const&, int parity, View const& dk, cudaStream_t);

}  // namespace faltung::long_conv::cuda::spectral_passes
