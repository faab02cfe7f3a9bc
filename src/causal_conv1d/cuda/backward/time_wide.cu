// Launches backward_time_kernel for the wider filters: a translation unit of their own, since each is a kernel.
#include "causal_conv1d/cuda/backward/time_launch.cuh"

namespace faltung::causal_conv1d::cuda {

void launch_backward_time_wide(Problem const& p, BackwardArgs const& a, Cut const& cut, void* partial) {
  launch_backward_time_widths<5, 6, 7, 8>(p, a, cut, partial);
}

}  // namespace faltung::causal_conv1d::cuda
