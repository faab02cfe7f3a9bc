// The forward's kernels, from the host.
#pragma once
#include "causal_conv1d/cuda/launch.hpp"

namespace faltung::causal_conv1d::cuda {

// Chooses among the kernels below.
void forward(Problem const&, ForwardArgs const&);
// The kernel for anything alone.
void forward_any(Problem const&, ForwardArgs const&);

// Channels side by side, 16 bytes a thread.
bool fits_forward_channels(Problem const&, ForwardArgs const&);
void launch_forward_channels(Problem const&, ForwardArgs const&, Cut const&);
// Tokens side by side, 16 bytes a lane.
bool fits_forward_time(Problem const&, ForwardArgs const&);
void launch_forward_time(Problem const&, ForwardArgs const&, Cut const&);
void launch_forward_time_wide(Problem const&, ForwardArgs const&, Cut const&);  // widths above 4
void launch_forward_any(Problem const&, ForwardArgs const&, Cut const&);
void write_final_state(Problem const&, ForwardArgs const&, Cut const&);

}  // namespace faltung::causal_conv1d::cuda
