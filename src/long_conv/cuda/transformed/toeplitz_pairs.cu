// The product over two causal axes of a grid whose third axis is transformed: for each of its frequencies, a sum over
// the outer axis for each distance along the inner one, which has few points. A thread takes eight outputs along the
// outer axis at one point of the inner one.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/toeplitz.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_threads = 512;

// [inner][7 zeros + points][column] of images, [inner][taps][column] of filters.
constexpr int padded(int points) { return (points + outputs - 1) / outputs * outputs; }
constexpr int image_lines(ToeplitzProduct const& p) { return p.inner_points * (outputs - 1 + padded(p.points)); }
constexpr int filter_lines(ToeplitzProduct const& p) { return p.inner_taps * padded(p.taps); }

template <typename Real>
constexpr std::size_t shared_bytes(ToeplitzProduct const& p) {
  return sizeof(Complex<Real>) * std::size_t(image_lines(p) + filter_lines(p)) << p.log2_columns;
}

template <typename Real>
__global__ __launch_bounds__(most_threads) void multiply_pairs_kernel(__grid_constant__ ToeplitzProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  int const log2_columns = p.log2_columns, columns = 1 << log2_columns, threads = int(blockDim.x);
  int const chunks = (p.points + outputs - 1) / outputs, rows = outputs - 1 + chunks * outputs, taps = padded(p.taps);
  auto* const x = reinterpret_cast<Complex<Real>*>(shared);
  auto* const filter = x + (image_lines(p) << log2_columns);
  int const unit = int(blockIdx.x / (p.lines / columns));
  std::int64_t const first_line = std::int64_t(blockIdx.x % (p.lines / columns)) * columns;

  auto const* const k = static_cast<Complex<Real> const*>(p.filters) + unit * p.filter_stride + first_line;
  for (int i = threadIdx.x; i < filter_lines(p) << log2_columns; i += threads) {
    int const column = i & (columns - 1), tap = (i >> log2_columns) % taps, inner = (i >> log2_columns) / taps;
    filter[i] = tap < p.taps ? k[(std::int64_t(tap) * p.inner_taps + inner) * p.lines + column] : Complex<Real>{};
  }
  for (int image = blockIdx.y; image < p.images_per_unit; image += gridDim.y) {
    auto* const at = static_cast<Complex<Real>*>(p.images) +
                     (std::int64_t(unit) * p.images_per_unit + image) * p.image_stride + first_line;
    __syncthreads();
    for (int i = threadIdx.x; i < image_lines(p) << log2_columns; i += threads) {
      int const column = i & (columns - 1), inner = (i >> log2_columns) / rows,
                point = (i >> log2_columns) % rows - (outputs - 1);
      x[i] = point >= 0 && point < p.points ? at[(std::int64_t(point) * p.inner_points + inner) * p.lines + column]
                                            : Complex<Real>{};
    }
    __syncthreads();
    // The longest sums first.
    for (int i = threadIdx.x; i < (p.inner_points * chunks) << log2_columns; i += threads) {
      int const column = i & (columns - 1), chunk = chunks - 1 - (i >> log2_columns) / p.inner_points,
                inner = (i >> log2_columns) % p.inner_points;
      Complex<Real> total[outputs] = {};
      for (int d = 0; d <= inner && d < p.inner_taps; ++d) {
        Complex<Real> y[outputs];
        thread_product(y, x + (((inner - d) * rows + outputs - 1) << log2_columns) + column,
                       filter + ((d * taps) << log2_columns) + column, chunk * outputs, taps, columns);
#pragma unroll
        for (int e = 0; e < outputs; ++e) total[e] = total[e] + y[e];
      }
#pragma unroll
      for (int e = 0; e < outputs; ++e)
        if (chunk * outputs + e < p.points)
          at[(std::int64_t(chunk * outputs + e) * p.inner_points + inner) * p.lines + column] = total[e];
    }
  }
}

template <typename Real>
void run(ToeplitzProduct p, cudaStream_t stream) {
  p.log2_columns = 2;
  while (p.log2_columns > 0 && shared_bytes<Real>(p) > std::size_t(faltung::cuda::shared_memory_budget()))
    --p.log2_columns;
  int const items = (p.inner_points * ((p.points + outputs - 1) / outputs)) << p.log2_columns;
  std::int64_t const blocks = std::int64_t(p.lines >> p.log2_columns) * p.units;
  std::int64_t const wanted = 2 * faltung::cuda::multiprocessors();
  auto const shares = std::clamp<std::int64_t>((wanted + blocks - 1) / blocks, 1, std::min(p.images_per_unit, 65535));
  faltung::cuda::launch<multiply_pairs_kernel<Real>>(
      "cuda.transformed product over two causal axes",
      {.grid = dim3(unsigned(blocks), unsigned(shares)),
       .threads = unsigned(std::clamp((items + 31) / 32 * 32, 32, most_threads)),
       .shared_bytes = shared_bytes<Real>(p),
       .stream = stream,
       .starts_early = true},
      p);
}

}  // namespace

std::size_t toeplitz_pairs_shared_bytes(ToeplitzProduct const& p, Precision precision) {
  return precision == Precision::twice ? shared_bytes<double>(p) : shared_bytes<float>(p);
}

void multiply_toeplitz_pairs(ToeplitzProduct const& p, Precision precision, cudaStream_t stream) {
  if (precision == Precision::twice)
    run<double>(p, stream);
  else
    run<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
