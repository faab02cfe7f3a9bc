// cuda.line: direct products on tensor cores along one axis in 16 bits, exact to the bit where it is causal.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::line {

char const* reject(Problem const&);
char const* prefer_others(Problem const&);
std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::line
