// cpu.transformed: the convolution by transforms of every axis, fused: pad, transform, multiply, inverse, crop in the
// cache.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cpu::transformed {

// Three causal axes go by slices of the outermost one, each a problem of the other two.
inline Problem slice_of(Problem p) {
  p.axes[0] = {.extent = 1, .filter = 1, .centre = 0, .boundary = Boundary::zero};
  return p;
}

char const* reject(Problem const&);
std::string policy(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cpu::transformed
