// The outer half of a long axis, n = row columns + column: transforms over rows, of real images and filters, with the
// twiddles exp(-2 pi i column frequency / M) behind them; the inner half is columns.cu's. Blocks take neighbouring
// columns.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/elements.cuh"
#include "long_conv/cuda/transformed/visit.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_blocks = 1 << 20;

// Which image or filter, and which column.
struct Place {
  std::int64_t plane;
  int column;
};
template <typename Real, int log2_radix>
__device__ Place place_of(Split const& s, BlockTransform<Real, Lines::interleaved, log2_radix> const& block) {
  int const log2_tiles = s.log2_columns - s.transform.log2_lines;
  return {std::int64_t(blockIdx.x) >> log2_tiles,
          int(blockIdx.x & ((1 << log2_tiles) - 1)) * block.lines() + block.line()};
}

__device__ int points(Split const& s) { return 1 << (s.transform.length.log2 + s.log2_columns); }

// exp(-2 pi i n / 4M), n = row columns + column, is the rotation of the row here and a factor of the column alone,
// which may wait until after the transform over rows and is part of the table.
template <typename Real, int log2_radix>
__device__ void twiddle(Complex<Real> (&v)[1 << log2_radix], Split const& s,
                        BlockTransform<Real, Lines::interleaved, log2_radix> const& block, int column, Sense sense) {
  auto const* const by = static_cast<Complex<Real> const*>(s.twiddles) + column;
#pragma unroll
  for (int q = 0; q < 1 << log2_radix; ++q) {
    auto const root = by[block.index(q) << s.log2_columns];
    v[q] = v[q] * (sense == Sense::forward ? root : conjugate(root));
  }
}

template <typename Real, int log2_radix>
__global__ __launch_bounds__(most_threads<log2_radix, 1>) void split_images_kernel(
    __grid_constant__ ImageSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& s = p.split;
  auto const& a = p.rows;
  BlockTransform<Real, Lines::interleaved, log2_radix> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  int const image = int(at.plane / p.pieces), first = 2 * int(at.plane % p.pieces) * p.piece_points;
  std::int64_t const stride = a.from.strides.spatial[2];
  std::int64_t const row =
      image_offset(a.chunk, a.from.strides, image / a.chunk.images, image % a.chunk.images) + first * stride;
  int const extent = p.pieces == 1 && !p.sums ? a.extent : std::min(a.extent - first, p.piece_points);
  Complex<Real> v[1 << log2_radix];
  load_image(v, a.from.data, a.dtype, row, stride, extent, block.place() * columns + at.column, block.share() * columns,
             points(s));
  turn(v, s.rotation, block.place(), block.share());
  block.forward(v);
  twiddle(v, s, block, at.column, Sense::forward);
  auto* const to = static_cast<Complex<Real>*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 1 << log2_radix; ++q) to[std::int64_t(block.index(q)) * columns] = v[q];
}

template <typename Real, int log2_radix>
__device__ void restore_points(Complex<Real> (&v)[1 << log2_radix], Split const& s,
                               BlockTransform<Real, Lines::interleaved, log2_radix> const& block, Place const& at) {
  int const columns = 1 << s.log2_columns;
  auto const* const from = static_cast<Complex<Real> const*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 1 << log2_radix; ++q) v[q] = from[std::int64_t(block.index(q)) * columns];
  twiddle(v, s, block, at.column, Sense::inverse);
  block.inverse(v);
  turn_back(v, s.rotation, block.place(), block.share());
}

template <typename Real, int log2_radix>
__global__ __launch_bounds__(most_threads<log2_radix, 1>) void restore_split_images_kernel(
    __grid_constant__ ImageSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& s = p.split;
  auto const& a = p.rows;
  BlockTransform<Real, Lines::interleaved, log2_radix> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[1 << log2_radix];
  restore_points(v, s, block, at);
  int const unit = int(at.plane / a.chunk.images), image = int(at.plane % a.chunk.images);
  store_image(v, a, image_offset(a.chunk, a.to.strides, unit, image),
              image_offset(a.chunk, a.from.strides, unit, image), channel_of(a.chunk, unit),
              block.place() * columns + at.column, block.share() * columns, points(s));
}

// A causal level: points b .. 2b - 1 of the wrapped line, the block behind the one that was transformed.
template <typename Real, int log2_radix>
__global__ __launch_bounds__(most_threads<log2_radix, 1>) void add_split_images_kernel(
    __grid_constant__ ImageSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& s = p.split;
  BlockTransform<Real, Lines::interleaved, log2_radix> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[1 << log2_radix];
  restore_points(v, s, block, at);
  auto* const sums = static_cast<Real*>(p.sums) + at.plane / p.pieces * p.sum_stride +
                     (2 * (at.plane % p.pieces) + 1) * p.piece_points + at.column;
#pragma unroll
  for (int q = 0; q < 1 << log2_radix; ++q) sums[std::int64_t(block.index(q)) * columns] -= v[q].im;
}

template <typename Real, int log2_radix>
__global__ __launch_bounds__(most_threads<log2_radix, 1>) void split_filters_kernel(
    __grid_constant__ FilterSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& [s, a] = p;
  BlockTransform<Real, Lines::interleaved, log2_radix> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[1 << log2_radix];
  load_taps(v, a, a.axes[2], image_offset(a.chunk, a.from.strides, int(at.plane), 0), 0, 0,
            block.place() * columns + at.column, block.share() * columns, points(s));
  turn(v, s.rotation, block.place(), block.share());
  block.forward(v);
  twiddle(v, s, block, at.column, Sense::forward);
  auto* const to = static_cast<Complex<Real>*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 1 << log2_radix; ++q) to[std::int64_t(block.index(q)) * columns] = v[q];
}

// Leaves z[n] = line[n] - i line[n + M] in place.
template <typename Real, int log2_radix>
__global__ __launch_bounds__(most_threads<log2_radix, 1>) void restore_split_filters_kernel(
    __grid_constant__ FilterSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& s = p.split;
  BlockTransform<Real, Lines::interleaved, log2_radix> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[1 << log2_radix];
  restore_points(v, s, block, at);
  auto* const to = static_cast<Complex<Real>*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 1 << log2_radix; ++q) to[std::int64_t(block.index(q)) * columns] = v[q];
}

template <typename Real>
__global__ void gather_taps_kernel(__grid_constant__ FilterSplit const p) {
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& [s, a] = p;
  std::int64_t const steps = (a.axes[2].filter + blockDim.x - 1) / blockDim.x;
  int const half = points(s);
  for (std::int64_t item = blockIdx.x; item < steps * a.chunk.units; item += gridDim.x) {
    int const unit = int(item / steps);
    auto const* const z = static_cast<Complex<Real> const*>(s.spectra) + unit * s.stride;
    store_single_axis<Real>(
        a, unit, [&](int at) { return at < half ? z[at].re : -z[at - half].im; },
        item % steps * blockDim.x + threadIdx.x, steps * blockDim.x);
  }
}

template <auto Kernel, typename Real, typename Arguments>
void launch_split(char const* name, Split const& s, std::int64_t planes, Arguments const& arguments,
                  cudaStream_t stream) {
  std::int64_t const blocks = planes << (s.log2_columns - s.transform.log2_lines);
  faltung::cuda::launch<Kernel>(name,
                                {.grid = dim3(unsigned(blocks)),
                                 .threads = unsigned(s.transform.threads()),
                                 .shared_bytes = s.transform.shared_bytes(sizeof(Real)),
                                 .stream = stream,
                                 .starts_early = true},
                                arguments);
}

}  // namespace

void transform_split(ImageSplit const& p, Precision precision, cudaStream_t stream) {
  std::int64_t const planes = std::int64_t(p.rows.chunk.units) * p.rows.chunk.images * p.pieces;
  visit_radix(precision, p.split.transform.length, [&]<typename Real, int radix> {
    launch_split<split_images_kernel<Real, radix>, Real>("cuda.transformed images", p.split, planes, p, stream);
  });
}

void restore_split(ImageSplit const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed images back";
  std::int64_t const planes = std::int64_t(p.rows.chunk.units) * p.rows.chunk.images * p.pieces;
  visit_radix(precision, p.split.transform.length, [&]<typename Real, int radix> {
    if (p.sums)
      launch_split<add_split_images_kernel<Real, radix>, Real>(name, p.split, planes, p, stream);
    else
      launch_split<restore_split_images_kernel<Real, radix>, Real>(name, p.split, planes, p, stream);
  });
}

void transform_split(FilterSplit const& p, Precision precision, cudaStream_t stream) {
  visit_radix(precision, p.split.transform.length, [&]<typename Real, int radix> {
    launch_split<split_filters_kernel<Real, radix>, Real>("cuda.transformed filter", p.split, p.rows.chunk.units, p,
                                                          stream);
  });
}

void restore_split(FilterSplit const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter back";
  visit_radix(precision, p.split.transform.length, [&]<typename Real, int radix> {
    launch_split<restore_split_filters_kernel<Real, radix>, Real>(name, p.split, p.rows.chunk.units, p, stream);
    constexpr int threads = 256;
    std::int64_t const items = (p.rows.axes[2].filter + threads - 1) / threads * p.rows.chunk.units;
    faltung::cuda::launch<gather_taps_kernel<Real>>(name,
                                                    {.grid = dim3(unsigned(items < most_blocks ? items : most_blocks)),
                                                     .threads = threads,
                                                     .stream = stream,
                                                     .starts_early = true},
                                                    p);
  });
}

}  // namespace faltung::long_conv::cuda::transformed
