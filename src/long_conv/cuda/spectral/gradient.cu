// dk for a padded extent and a dtype.
#include "long_conv/cuda/spectral/run_gradient.cuh"

namespace faltung::long_conv::cuda::spectral {

std::size_t gradient_shared_bytes(Problem const& p) {
  if (p.x_dtype == FALTUNG_F32) return split_gradient_shared_bytes();
  return visit_element(p.x_dtype, [&]<typename Element> {
    return padded_extent(p) == 32 ? sizeof(GradientShared<32, Element>) : sizeof(GradientShared<64, Element>);
  });
}

void filter_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  if (p.x_dtype == FALTUNG_F32) return split_filter_gradient(p, a, stream);
  if (p.k_dtype == FALTUNG_F32) return wide_filter_gradient(p, a, stream);
  visit_element(p.x_dtype, [&]<typename Element> {
    visit_int<32, 64>(padded_extent(p), "padded extent",
                      [&]<int N> { run_gradient<N, Element, Element>(p, a, stream); });
  });
}

}  // namespace faltung::long_conv::cuda::spectral
