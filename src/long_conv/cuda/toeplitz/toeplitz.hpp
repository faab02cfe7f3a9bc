// cuda.toeplitz: direct products on tensor cores for small two-dimensional grids in 16 bits.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::toeplitz {

char const* reject(Problem const&);
std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::toeplitz
