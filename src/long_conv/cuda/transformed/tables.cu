// Roots of unity, correctly rounded, into the workspace: a call's first launch.
#include <algorithm>

#include "cuda/grid.cuh"
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

// A pass of radix r and stride s over blocks of rs points has exp(-2 pi i k q / rs) at n - rs + (q - 1) s + k.
template <typename Real>
__device__ Complex<Real> pass_twiddle(int i, int log2_length, int log2_radix) {
  int const length = 1 << log2_length;
  int stride = length >> log2_radix;
  while (stride > 1 && i >= length - stride) stride >>= log2_radix;
  if (stride <= 1) return {Real(1), Real(0)};  // a spare entry
  int const within = i - (length - (stride << log2_radix));
  return root<Real>(std::int64_t(within / stride + 1) * (within % stride), stride << log2_radix);
}

// The frequency in a slot of a transform of a power of two, in the order that BlockTransform leaves behind.
__device__ int frequency_of(int slot, int log2_length, int log2) {
  int const share = 1 << (log2_length - log2);
  int rest = ((slot & (share - 1)) << log2) + slot / share, result = 0, scale = 1;
  for (int stride = share;; stride >>= log2) {
    result += rest / stride * scale;
    rest %= stride;
    scale <<= log2;
    if (stride <= 1 << log2) return result + rest * scale;
  }
}

template <typename Real>
__device__ void build(Table const& table) {
  auto* const to = static_cast<Complex<Real>*>(table.to);
  int const log2 = table.length.log2, points = table.length.points(), entries = table_entries(table);
  auto const [rows, columns] = split_lengths(log2);
  for (int i = blockIdx.x * threads + threadIdx.x; i < entries; i += gridDim.x * threads) {
    switch (table.kind) {
      case TableKind::block_twiddles:
        to[i] = pass_twiddle<Real>(i, log2, table.log2_radix);
        break;
      case TableKind::odd_twiddles:
        to[i] = root<Real>(std::int64_t((i >> log2) + 1) * (i & ((1 << log2) - 1)), points);
        break;
      case TableKind::rotation:
        to[i] = root<Real>(i, 4 * std::int64_t(points));
        break;
      case TableKind::roots:
        to[i] = root<Real>(i, 2 * std::int64_t(points));
        break;
      case TableKind::frequencies:
        static_cast<int*>(table.to)[i] =
            table.length.odd * frequency_of(i & ((1 << log2) - 1), log2, table.log2_radix) + (i >> log2);
        break;
      case TableKind::split_twiddles: {
        std::int64_t const column = i & ((1 << columns) - 1),
                           frequency = frequency_of(i >> columns, rows, log2_radix(Length{1, rows}));
        to[i] = root<Real>(column * (4 * frequency + 1), std::int64_t(4) << log2);
        break;
      }
    }
  }
}

__global__ __launch_bounds__(threads) void tables_kernel(__grid_constant__ Tables const a) {
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& table = a.tables[blockIdx.y];
  if (table.precision == Precision::twice)
    build<double>(table);
  else
    build<float>(table);
}

}  // namespace

void build_tables(Tables const& a, cudaStream_t stream) {
  int most = 0;
  for (int i = 0; i < a.count; ++i) most = std::max(most, table_entries(a.tables[i]));
  faltung::cuda::launch<tables_kernel>("cuda.transformed tables",
                                       {.grid = dim3(unsigned((most + threads - 1) / threads), unsigned(a.count)),
                                        .threads = threads,
                                        .stream = stream,
                                        .starts_early = true},
                                       a);
}

}  // namespace faltung::long_conv::cuda::transformed
