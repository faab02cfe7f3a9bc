// long_conv on CUDA by transforms of both axes while the image stays in shared memory: fp32 grids of up to 64 x 64
// points, padded to 128 x 128.
#pragma once
#include <string>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::onchip {

char const* reject(Problem const&);
std::string policy(Problem const&);
std::size_t workspace(Problem const&);
void forward(Problem const&, ForwardArgs const&);
void backward(Problem const&, BackwardArgs const&);

}  // namespace faltung::long_conv::cuda::onchip
