// Problem -> shape and policy of the toeplitz kernels.
#pragma once
#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::toeplitz {

// A warp owns 2 `pairs` output rows: few for small grids, so that four warps have work; more where rows are many, since
// each step then feeds more MMAs from one filter row.
struct ToeplitzPolicy {
  int tiles;  // of 16 columns
  int pairs;
};

Shape make_shape(Problem const&);
ToeplitzPolicy choose_policy(Problem const&);

}  // namespace faltung::long_conv::cuda::toeplitz
