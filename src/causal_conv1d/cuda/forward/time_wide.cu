// Launches forward_time_kernel for the wider filters: a translation unit of their own, since each is a kernel.
#include "causal_conv1d/cuda/forward/time_launch.cuh"

namespace faltung::causal_conv1d::cuda {

void launch_forward_time_wide(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  launch_forward_time_widths<5, 6, 7, 8>(p, a, cut);
}

}  // namespace faltung::causal_conv1d::cuda
