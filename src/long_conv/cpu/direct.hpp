// cpu.direct: every tap times every input it meets, for small grids, small filters, and axes that must be causal to the
// bit.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu::direct {

char const* prefer_transformed(Problem const&);  // the reason, where cpu.transformed is faster
std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cpu::direct
