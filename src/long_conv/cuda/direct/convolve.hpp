// One convolution that covers the forward and both gradients, for any extents, strides, boundaries and dtypes:
//   out[b, c, o] = shortcut[c] in[b, c, o] + sum over r, f of in[b + r, c, o + centre - f] filter[b + r, c, f]
// dx is the convolution of dy with the reversed filter, dk that of the reversed x with dy, summed over the batch.
#pragma once
#include <cuda_runtime.h>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::direct {

struct ConvolutionAxis {
  std::int64_t out, in, filter, centre;
  bool circular;
};

// Pointer to the element at index 0 of every axis; a reversed axis has a negative stride and the pointer at its end.
struct Operand {
  void const* data = nullptr;
  Dtype dtype;
  Strides strides;
};

struct Convolution {
  ConvolutionAxis axes[3];
  std::int64_t batch, channels;  // of out
  std::int64_t reduction;        // batch entries of in and filter that go into one of out
  Operand in, filter;
  Operand shortcut;  // strides.channel alone; null data: none
  View out;
  Dtype out_dtype;
};

// How a block's threads divide the work: `width` threads of eight outputs side by side, `rows` of them, `splits` shares
// of the taps. A function of extents alone, never of batch, channels or strides: the order of the sums of y depends on
// it.
struct DirectPolicy {
  int width, rows, splits;
  constexpr int threads() const { return width * rows * splits; }
};

DirectPolicy choose_policy(ConvolutionAxis const (&axes)[3], std::int64_t reduction);

enum class Compute { single, twice };
void convolve(Convolution const&, Compute, cudaStream_t);

}  // namespace faltung::long_conv::cuda::direct
