// y and dx for a padded extent and a dtype.
#include "long_conv/cuda/spectral/run_product.cuh"

namespace faltung::long_conv::cuda::spectral {

std::size_t shared_bytes(Problem const& p) {
  if (p.x_dtype == FALTUNG_F32) return split_shared_bytes();
  return visit_element(p.x_dtype, [&]<typename Element> {
    return padded_extent(p) == 32 ? sizeof(Shared<32, Element>) : sizeof(Shared<64, Element>);
  });
}

void multiply(Problem const& p, Product product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
              View const& y, cudaStream_t stream) {
  if (p.x_dtype == FALTUNG_F32) return split_multiply(p, product, x, k, shortcut, y, stream);
  if (p.k_dtype == FALTUNG_F32) return wide_multiply(p, product, x, k, shortcut, y, stream);
  visit_element(p.x_dtype, [&]<typename Element> {
    visit_int<32, 64>(padded_extent(p), "padded extent",
                      [&]<int N> { run_product<N, Element, Element>(p, product, x, k, shortcut, y, stream); });
  });
}

}  // namespace faltung::long_conv::cuda::spectral
