// The product over a causal axis of a grid whose other axes are transformed: y[i] = sum over d <= i of k[d] x[i - d]
// for each frequency of the others, so that no output knows a later input. A thread takes eight outputs of a column,
// and the mirror image of those, which makes all threads equally long.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/toeplitz.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_threads = 512;

template <typename Real>
__global__ __launch_bounds__(most_threads) void multiply_toeplitz_kernel(__grid_constant__ ToeplitzProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  int const columns = 1 << p.log2_columns, threads = int(blockDim.x);
  auto* const filter = reinterpret_cast<Complex<Real>*>(shared);
  auto* const x = filter + p.padded_taps() * columns + (outputs - 1) * columns;
  int const unit = int(blockIdx.x / (p.lines / columns));
  std::int64_t const first_line = std::int64_t(blockIdx.x % (p.lines / columns)) * columns;

  auto const* const k = static_cast<Complex<Real> const*>(p.filters) + unit * p.filter_stride + first_line;
  for (int i = threadIdx.x; i < p.padded_taps() * columns; i += threads) {
    int const tap = i >> p.log2_columns;
    filter[i] = tap < p.taps ? k[std::int64_t(tap) * p.lines + (i & (columns - 1))] : Complex<Real>{};
  }
  for (int i = threadIdx.x; i < (outputs - 1) * columns; i += threads) x[i - (outputs - 1) * columns] = {};
  int const column = int(threadIdx.x) & (columns - 1), chunks = (p.points + outputs - 1) / outputs;
  for (int image = blockIdx.y; image < p.images_per_unit; image += gridDim.y) {
    auto* const at = static_cast<Complex<Real>*>(p.images) +
                     (std::int64_t(unit) * p.images_per_unit + image) * p.image_stride + first_line;
    __syncthreads();
    for (int i = threadIdx.x; i < chunks * outputs * columns; i += threads) {
      int const point = i >> p.log2_columns;
      x[i] = point < p.points ? at[std::int64_t(point) * p.lines + (i & (columns - 1))] : Complex<Real>{};
    }
    __syncthreads();
    for (int pair = int(threadIdx.x) >> p.log2_columns; 2 * pair < chunks; pair += threads >> p.log2_columns) {
      for (int half = 0; half < 2; ++half) {
        int const chunk = half ? chunks - 1 - pair : pair;
        if (half && chunk == pair) break;
        Complex<Real> y[outputs];
        thread_product(y, x + column, filter + column, chunk * outputs, p.taps, columns);
#pragma unroll
        for (int e = 0; e < outputs; ++e)
          if (chunk * outputs + e < p.points) at[std::int64_t(chunk * outputs + e) * p.lines + column] = y[e];
      }
    }
  }
}

template <typename Real>
void run(ToeplitzProduct p, cudaStream_t stream) {
  // As many columns as let 48 KB hold filter and image, at most 16, at least two.
  auto const bytes = [&] { return toeplitz_shared_bytes(p.points, p.taps, p.log2_columns, sizeof(Real)); };
  p.log2_columns = 4;
  while (p.log2_columns > 1 && bytes() > 48 * 1024) --p.log2_columns;
  while (p.lines % (1 << p.log2_columns)) --p.log2_columns;
  int const pairs = ((p.points + outputs - 1) / outputs + 1) / 2;
  int const threads = std::clamp(pairs << p.log2_columns, 32, most_threads) / 32 * 32;
  std::int64_t const blocks = std::int64_t(p.lines >> p.log2_columns) * p.units;
  std::int64_t const wanted = 4 * faltung::cuda::multiprocessors();
  auto const shares = std::clamp<std::int64_t>((wanted + blocks - 1) / blocks, 1, std::min(p.images_per_unit, 65535));
  faltung::cuda::launch<multiply_toeplitz_kernel<Real>>("cuda.transformed causal product",
                                                        {.grid = dim3(unsigned(blocks), unsigned(shares)),
                                                         .threads = unsigned(threads),
                                                         .shared_bytes = bytes(),
                                                         .stream = stream,
                                                         .starts_early = true},
                                                        p);
}

}  // namespace

void multiply_toeplitz(ToeplitzProduct const& p, Precision precision, cudaStream_t stream) {
  if (precision == Precision::twice)
    run<double>(p, stream);
  else
    run<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
