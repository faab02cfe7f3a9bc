// Roots of unity, correctly rounded, into the workspace: a call's first launch.
#include <algorithm>

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
__device__ Complex<Real> pass_twiddle(int i, int log2_length) {
  int const length = 1 << log2_length;
  int stride = length >> 3;
  while (stride > 1 && i >= length - stride) stride >>= 3;
  if (stride <= 1) return {Real(1), Real(0)};  // a spare entry
  int const within = i - (length - 8 * stride);
  return root<Real>(std::int64_t(within / stride + 1) * (within % stride), 8 * stride);
}

template <typename Real>
__device__ void build(Table const& table) {
  auto* const to = static_cast<Complex<Real>*>(table.to);
  int const log2 = table.log2_length, entries = int(table_entries(table));
  for (int i = blockIdx.x * threads + threadIdx.x; i < entries; i += gridDim.x * threads) {
    switch (table.kind) {
      case TableKind::block_twiddles:
        to[i] = pass_twiddle<Real>(i, log2);
        break;
      case TableKind::rotation:
        to[i] = root<Real>(i, std::int64_t(4) << log2);
        break;
      case TableKind::two_level_roots: {
        int const low = log2 / 2, high = log2 - low;
        to[i] = root<Real>(i < 1 << high ? std::int64_t(i) << low : i - (1 << high), std::int64_t(1) << log2);
        break;
      }
    }
  }
}

__global__ __launch_bounds__(threads) void tables_kernel(__grid_constant__ Tables const a) {
  auto const& table = a.tables[blockIdx.y];
  if (table.precision == Precision::twice)
    build<double>(table);
  else
    build<float>(table);
}

}  // namespace

void build_tables(Tables const& a, cudaStream_t stream) {
  std::size_t most = 0;
  for (int i = 0; i < a.count; ++i) most = std::max(most, table_entries(a.tables[i]));
  faltung::cuda::launch<tables_kernel>(
      "cuda.transformed tables",
      {.grid = dim3(unsigned((most + threads - 1) / threads), unsigned(a.count)), .threads = threads, .stream = stream},
      a);
}

}  // namespace faltung::long_conv::cuda::transformed
