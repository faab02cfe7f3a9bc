// What the spectral kernels offer to the choice in spectral.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::spectral {

// Points per axis of the kernel that serves the problem: 32 or 64.
int padded_extent(Problem const&);

// Bytes of shared memory of a block, of multiply and of filter_gradient.
std::size_t shared_bytes(int padded_extent);
std::size_t gradient_shared_bytes(int padded_extent);

// y = x * k + shortcut x; `transposed`: dx from dy.
enum class Product { plain, transposed };
void multiply(Problem const&, Product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
              View const& y, cudaStream_t);

// dk of a shared filter and at most eight samples.
void filter_gradient(Problem const&, BackwardArgs const&, cudaStream_t);

}  // namespace faltung::long_conv::cuda::spectral
