// Roots of unity, correctly rounded, into the workspace: a call's first launches.
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/complex.cuh"
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int threads = 256;

// exp(-2 pi i t / n).
template <typename Real>
__device__ Complex<Real> root(std::int64_t t, std::int64_t n) {
  double sine, cosine;
  sincospi(-2.0 * double(t) / double(n), &sine, &cosine);
  return {Real(cosine), Real(sine)};
}

// A pass of stride s over blocks of 8s points has exp(-2 pi i k q / 8s) at n - 8s + (q - 1) s + k.
template <typename Real>
__global__ void block_twiddles_kernel(Complex<Real>* to, int log2_length) {
  int const length = 1 << log2_length;
  for (int i = blockIdx.x * threads + threadIdx.x; i < length; i += gridDim.x * threads) {
    int stride = length >> 3;
    while (stride > 1 && i >= length - stride) stride >>= 3;
    if (stride <= 1) continue;  // spare entries
    int const within = i - (length - 8 * stride);
    to[i] = root<Real>(std::int64_t(within / stride + 1) * (within % stride), 8 * stride);
  }
}

template <typename Real>
__global__ void rotation_kernel(Complex<Real>* to, int log2_length) {
  for (int i = blockIdx.x * threads + threadIdx.x; i < 1 << log2_length; i += gridDim.x * threads)
    to[i] = root<Real>(i, std::int64_t(4) << log2_length);
}

__global__ void two_level_roots_kernel(Complex<double>* to, int log2_length) {
  int const low = log2_length / 2, high = log2_length - low;
  for (int i = blockIdx.x * threads + threadIdx.x; i < (1 << high) + (1 << low); i += gridDim.x * threads) {
    std::int64_t const t = i < 1 << high ? std::int64_t(i) << low : i - (1 << high);
    to[i] = root<double>(t, std::int64_t(1) << log2_length);
  }
}

faltung::cuda::LaunchShape shape(int entries, cudaStream_t stream) {
  return {.grid = dim3(unsigned((entries + threads - 1) / threads)), .threads = threads, .stream = stream};
}

}  // namespace

void block_twiddles(void* to, int log2_length, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed twiddles";
  if (precision == Precision::twice)
    faltung::cuda::launch<block_twiddles_kernel<double>>(name, shape(1 << log2_length, stream),
                                                         static_cast<Complex<double>*>(to), log2_length);
  else
    faltung::cuda::launch<block_twiddles_kernel<float>>(name, shape(1 << log2_length, stream),
                                                        static_cast<Complex<float>*>(to), log2_length);
}

void rotation(void* to, int log2_length, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed rotation";
  if (precision == Precision::twice)
    faltung::cuda::launch<rotation_kernel<double>>(name, shape(1 << log2_length, stream),
                                                   static_cast<Complex<double>*>(to), log2_length);
  else
    faltung::cuda::launch<rotation_kernel<float>>(name, shape(1 << log2_length, stream),
                                                  static_cast<Complex<float>*>(to), log2_length);
}

void two_level_roots(void* to, int log2_length, cudaStream_t stream) {
  faltung::cuda::launch<two_level_roots_kernel>("cuda.transformed roots",
                                                shape(2 << (log2_length + 1) / 2, stream),
                                                static_cast<Complex<double>*>(to), log2_length);
}

std::size_t two_level_root_bytes(int log2_length) {
  int const low = log2_length / 2, high = log2_length - low;
  return 2 * sizeof(double) * ((std::size_t(1) << high) + (std::size_t(1) << low));
}

}  // namespace faltung::long_conv::cuda::transformed
