// cuda.direct: every problem of the contract, by plain sums. The base of the CUDA list; faster entries stand before it.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::direct {

char const* reject(Problem const&);
std::string policy(Problem const&);
std::size_t workspace(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::direct
