// cpu.transformed: the convolution by transforms of every axis, fused: pad, transform, multiply, inverse, crop in the
// cache.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu::transformed {

char const* reject(Problem const&);
std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cpu::transformed
