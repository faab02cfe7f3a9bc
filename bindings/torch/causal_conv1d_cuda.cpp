// The operators of causal_conv1d.cpp for CUDA tensors, on the current stream of x's device. Nothing synchronises;
// outputs and workspace come from torch's allocator.
#include "causal_conv1d_operators.hpp"
#include "cuda.hpp"

using namespace faltung::torch_binding;

STABLE_TORCH_LIBRARY_IMPL(faltung, CUDA, m) { CausalConv1dOperators<CudaLaunch>::implement(m); }
