// The update's kernels, from the host.
#pragma once
#include "causal_conv1d/cuda/launch.hpp"

namespace faltung::causal_conv1d::cuda {

// Chooses among the kernels below.
void update(Problem const&, UpdateArgs const&);
// The kernel for anything alone.
void update_any(Problem const&, UpdateArgs const&);

// One token, 16 bytes of channels a thread.
bool fits_update_vectors(Problem const&, UpdateArgs const&);
void launch_update_vectors(Problem const&, UpdateArgs const&);
void launch_update_any(Problem const&, UpdateArgs const&, Cut const&);

}  // namespace faltung::causal_conv1d::cuda
