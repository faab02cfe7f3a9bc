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
// Grids of `extent` x `extent` points with zeros around them and filters of 2 `extent` - 1 taps about their centre.
bool has_all_lags(Problem const&, int extent);
// The grids of 16 x 16 points among them, with filters shared by all images: there is a kernel for just these.
inline bool is_whole(Problem const& p) { return p.sharing == FilterSharing::shared && has_all_lags(p, 16); }
// Bytes of shared memory of the largest launch.
std::size_t shared_bytes(Problem const&);
ToeplitzPolicy choose_policy(Problem const&);

}  // namespace faltung::long_conv::cuda::toeplitz
