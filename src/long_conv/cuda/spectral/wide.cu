// bf16 images with fp32 filters, as autocast hands them over: filters become halves under their power of two, dk is
// fp32.
#include "long_conv/cuda/spectral/run_gradient.cuh"
#include "long_conv/cuda/spectral/run_product.cuh"

namespace faltung::long_conv::cuda::spectral {

void wide_multiply(Problem const& p, Product product, ConstView const& x, ConstView const& k,
                   ConstVector const& shortcut, View const& y, cudaStream_t stream) {
  visit_int<32, 64>(padded_extent(p), "padded extent",
                    [&]<int N> { run_product<N, __nv_bfloat16, float>(p, product, x, k, shortcut, y, stream); });
}

void wide_filter_gradient(Problem const& p, BackwardArgs const& a, cudaStream_t stream) {
  visit_int<32, 64>(padded_extent(p), "padded extent",
                    [&]<int N> { run_gradient<N, __nv_bfloat16, float>(p, a, stream); });
}

}  // namespace faltung::long_conv::cuda::spectral
