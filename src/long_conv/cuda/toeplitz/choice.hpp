// Problem -> shape and policy of the toeplitz kernels.
#pragma once
#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::toeplitz {

struct ToeplitzPolicy {
  int tiles;        // of 16 columns
  bool one_launch;  // dx and dk together: dy is loaded once; where shared memory holds all of it
};

// Whether operands are split into two halves: fp32, and fp32 filters with 16-bit images.
inline bool is_split(Problem const& p) { return p.k_dtype == FALTUNG_F32; }

LagAxis make_lag_axis(Axis const&);  // extents of at most 2^30
Shape make_shape(Problem const&);
// Bytes of shared memory of the largest launch.
std::size_t shared_bytes(Problem const&);
ToeplitzPolicy choose_policy(Problem const&);

}  // namespace faltung::long_conv::cuda::toeplitz
