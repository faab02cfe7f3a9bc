#pragma once
#include "long_conv/problem.hpp"

namespace faltung::long_conv::reference {

void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::reference
