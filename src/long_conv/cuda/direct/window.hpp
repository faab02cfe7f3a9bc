// Small filters on grids of two and three axes: a block stages the input of a tile of outputs once, with its boundary
// resolved, and slides all taps over it.
#pragma once
#include "long_conv/cuda/direct/convolve.hpp"

namespace faltung::long_conv::cuda::direct {

// Whether the kernels below take a problem: few taps, and rows that fill a tile.
bool in_windows(Problem const&);

// y or dx.
void convolve_windows(Convolution const&, Compute, cudaStream_t);

// dk[f] = sum over images and points i of dy[i] x[i + centre - f].
struct WindowGradient {
  ConvolutionAxis axes[3];  // of the forward
  std::int64_t batch, channels;
  bool per_sample;
  Operand x, dy;
  View out;
  Dtype out_dtype;
  double* partial;  // [units, shares, taps], a unit being a filter
};
// Blocks among which the images of a filter are divided.
std::int64_t gradient_shares(WindowGradient const&);
std::size_t gradient_workspace(WindowGradient const&);
void gradient_of_windows(WindowGradient const&, Compute, cudaStream_t);

}  // namespace faltung::long_conv::cuda::direct
