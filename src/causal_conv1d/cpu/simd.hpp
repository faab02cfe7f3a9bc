#pragma once
#include <string>

#include "causal_conv1d/problem.hpp"

namespace faltung::causal_conv1d::cpu {

std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);
void update(Problem const&, UpdateArgs const&);

}  // namespace faltung::causal_conv1d::cpu
