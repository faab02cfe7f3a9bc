// cuda.spectral: grids of 25 to 64 points an axis in 16 bits, to 32 in fp32, one axis transformed, the other a Toeplitz
// product per frequency.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::spectral {

char const* reject(Problem const&);
std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::spectral
