// What the launches of every direction share: the cut as kernels read it, and the content check that a caller may ask
// for.
#pragma once
#include <cuda_runtime.h>

#include "causal_conv1d/cuda/cut.hpp"

namespace faltung::causal_conv1d::cuda {

// Workspace of the edges of labelled rows, which stand first in it.
std::size_t edges_bytes(Problem const&);

// With `with_states`, the edges of labelled rows are found first, by a kernel.
Cut make_cut(Problem const&, Index const&, Runtime const&, bool with_states);

// Copies the index tensors to the host, which synchronises, and fails where their content is out of order.
void check_cut(Problem const&, Index const&, Runtime const&);
void check_update(Problem const&, UpdateArgs const&);

inline cudaStream_t stream_of(Runtime const& runtime) { return static_cast<cudaStream_t>(runtime.stream); }

}  // namespace faltung::causal_conv1d::cuda
