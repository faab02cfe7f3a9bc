// Launches forward_time_kernel for the narrower filters.
#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/forward/time_launch.cuh"

namespace faltung::causal_conv1d::cuda {

bool fits_forward_time(Problem const& p, ForwardArgs const& a) {
  return tuned(p, tuned_width_along_time) && vectors_along_time(p, a.x) && vectors_along_time(p, a.y) &&
         (!a.residual.data || vectors_along_time(p, a.residual));
}

void launch_forward_time(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  if (p.width <= tuned_width)
    launch_forward_time_widths<2, 3, 4>(p, a, cut);
  else
    launch_forward_time_wide(p, a, cut);
}

}  // namespace faltung::causal_conv1d::cuda
