// What the spectral kernels offer to the choice in spectral.cpp.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda::spectral {

// Points per axis of the kernel that serves the problem: 32 or 64.
int padded_extent(Problem const&);

// visit.template operator()<Element>()
template <typename Visitor>
auto visit_element(Dtype dtype, Visitor const& visit) {
  return dtype == FALTUNG_F16 ? visit.template operator()<__half>() : visit.template operator()<__nv_bfloat16>();
}

// Bytes of shared memory of a block, of multiply and of filter_gradient.
std::size_t shared_bytes(Problem const&);
std::size_t gradient_shared_bytes(Problem const&);

// y = x * k + shortcut x; `transposed`: dx from dy.
enum class Product { plain, transposed };
void multiply(Problem const&, Product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
              View const& y, cudaStream_t);

void filter_gradient(Problem const&, BackwardArgs const&, cudaStream_t);

// The same for bf16 images with fp32 filters.
void wide_multiply(Problem const&, Product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
                   View const& y, cudaStream_t);
void wide_filter_gradient(Problem const&, BackwardArgs const&, cudaStream_t);

// The same in fp32, for a padded extent of 32.
std::size_t split_shared_bytes();
std::size_t split_gradient_shared_bytes();
void split_multiply(Problem const&, Product, ConstView const& x, ConstView const& k, ConstVector const& shortcut,
                    View const& y, cudaStream_t);
void split_filter_gradient(Problem const&, BackwardArgs const&, cudaStream_t);

}  // namespace faltung::long_conv::cuda::spectral
