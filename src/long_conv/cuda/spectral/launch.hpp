// What the spectral kernels offer to the choice in spectral.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::spectral {

// Points per axis of the kernel that serves the problem: 32 or 64.
int padded_extent(Problem const&);

// Bytes of shared memory of a block.
std::size_t shared_bytes(int padded_extent);

// y = x * k + shortcut x; `transposed`: dx from dy.
enum class Product { plain, transposed };
void multiply(Problem const&, Product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
              View const& y, cudaStream_t);

}  // namespace faltung::long_conv::cuda::spectral
