// What every CUDA implementation shares beside its convolution: the gradient of the shortcut, and zeros.
#pragma once
#include <cuda_runtime.h>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda {

// dshortcut[c] = sum over b and the grid of dy x, in double, in an order that depends on the extents alone.
void shortcut_gradient(Problem const&, BackwardArgs const&, cudaStream_t);

// Zeros to dk (shared filters) and dshortcut, where asked for.
void fill_zero(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda
