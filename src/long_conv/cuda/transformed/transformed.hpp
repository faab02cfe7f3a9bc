// long_conv on CUDA by transforms of all axes, in several passes over a workspace: grids of any size up to 2^24 points
// in 1D and 2048 padded points an axis in 2D and 3D.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::transformed {

char const* reject(Problem const&);
std::string policy(Problem const&);
std::size_t workspace(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::transformed
