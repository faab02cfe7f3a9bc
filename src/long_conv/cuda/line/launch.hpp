// Launches of the kernels of cuda.line.
#pragma once
#include <cuda_runtime_api.h>

#include "long_conv/cuda/line/args.hpp"

namespace faltung::long_conv::cuda::line {

enum class Turn { forward, transposed };  // y from x, dx from dy

// to = from * k, or * the reversed k, + shortcut from + sums.
void convolve(Problem const&, Turn, ConstView const& from, ConstView const& k, ConstVector const& shortcut, Sums const&,
              View const& to, cudaStream_t);
// Whether dx and dk are faster in one launch.
bool is_short(Problem const&);
void input_and_filter_gradient(Problem const&, BackwardArgs const&, cudaStream_t);
void filter_gradient(Problem const&, ConstView const& dy, ConstView const& x, View const& dk, cudaStream_t);

}  // namespace faltung::long_conv::cuda::line
