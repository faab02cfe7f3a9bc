// Problem -> shape and policy of the toeplitz kernels.
#pragma once
#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::toeplitz {

struct ToeplitzPolicy {
  int tiles;  // of 16 columns
};

Shape make_shape(Problem const&);
ToeplitzPolicy choose_policy(Problem const&);

}  // namespace faltung::long_conv::cuda::toeplitz
