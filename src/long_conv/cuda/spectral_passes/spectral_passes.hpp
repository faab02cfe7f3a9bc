// cuda.spectral_passes: grids of up to 128 points an axis in 16 bits, one axis transformed, the other a Toeplitz
// product per frequency, in passes through a workspace.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::spectral_passes {

char const* reject(Problem const&);
char const* prefer_others(Problem const&);
std::string policy(Problem const&);
std::size_t workspace(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::spectral_passes
