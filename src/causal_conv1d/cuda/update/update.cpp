// Update on CUDA: one kernel, no workspace, nothing read back.
#include "causal_conv1d/cuda/update/update.hpp"

#include "cuda/device.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

Cut cut_of(Problem const& p, UpdateArgs const& a) {
  return {.kind = p.cut,
          .dtype = p.index_dtype,
          .index = a.cut,
          .time = p.time,
          .sequences = p.sequences,
          .width = p.width,
          .edges = nullptr};
}

}  // namespace

void update(Problem const& p, UpdateArgs const& a) {
  if (!fits_update_vectors(p, a)) return update_any(p, a);
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  check_update(p, a);
  launch_update_vectors(p, a);
}

void update_any(Problem const& p, UpdateArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  check_update(p, a);
  launch_update_any(p, a, cut_of(p, a));
}

}  // namespace faltung::causal_conv1d::cuda
