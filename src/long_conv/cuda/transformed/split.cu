// The outer half of a long axis, n = row columns + column: transforms over rows, of real images and filters, with the
// twiddles exp(-2 pi i column frequency / M) behind them; the inner half is columns.cu's. Blocks take neighbouring
// columns.
#include <algorithm>

#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_threads = 512, most_blocks = 1 << 20;

// exp(-2 pi i t / 4M), rounded once.
template <typename Real>
__device__ Complex<Real> root(Split const& s, std::int64_t t) {
  t <<= s.log2_roots - 2 - s.log2_columns - s.transform.log2_length;
  int const low = s.log2_roots / 2, high = s.log2_roots - low;
  auto const* const table = static_cast<Complex<double> const*>(s.roots);
  return converted<Real>(table[t >> low] * table[(std::int64_t(1) << high) + (t & ((1 << low) - 1))]);
}

// Which image or filter, and which column.
struct Place {
  std::int64_t plane;
  int column;
};
template <typename Real>
__device__ Place place_of(Split const& s, BlockTransform<Real, Lines::interleaved> const& block) {
  int const log2_tiles = s.log2_columns - s.transform.log2_lines;
  return {std::int64_t(blockIdx.x) >> log2_tiles,
          int(blockIdx.x & ((1 << log2_tiles) - 1)) * block.lines() + block.line()};
}

__device__ int points(Split const& s) { return 1 << (s.transform.log2_length + s.log2_columns); }

template <typename Real>
__device__ void turn(Complex<Real> (&v)[8], Split const& s, BlockTransform<Real, Lines::interleaved> const& block,
                     int column, bool back) {
#pragma unroll
  for (int q = 0; q < 8; ++q) {
    auto const by = root<Real>(s, (std::int64_t(block.index(q)) << s.log2_columns) + column);
    v[q] = v[q] * (back ? conjugate(by) : by);
  }
}

template <typename Real>
__device__ void twiddle(Complex<Real> (&v)[8], Split const& s, BlockTransform<Real, Lines::interleaved> const& block,
                        int column, bool back) {
#pragma unroll
  for (int q = 0; q < 8; ++q) {
    auto const by = root<Real>(s, 4 * std::int64_t(column) * block.frequency(q));
    v[q] = v[q] * (back ? conjugate(by) : by);
  }
}

template <typename Real>
__global__ __launch_bounds__(most_threads) void split_images_kernel(__grid_constant__ ImageSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& s = p.split;
  auto const& a = p.rows;
  BlockTransform<Real, Lines::interleaved> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  int const image = int(at.plane / p.pieces), first = 2 * int(at.plane % p.pieces) * p.piece_points;
  std::int64_t const stride = a.from.strides.spatial[2];
  std::int64_t const row =
      image_offset(a.chunk, a.from.strides, image / a.chunk.images, image % a.chunk.images) + first * stride;
  int const extent = p.pieces == 1 && !p.sums ? a.extent : std::min(a.extent - first, p.piece_points);
  Complex<Real> v[8];
  load_image(v, a.from.data, a.dtype, row, stride, extent, block.place() * columns + at.column, block.share() * columns,
             points(s));
  turn(v, s, block, at.column, false);
  block.forward(v);
  twiddle(v, s, block, at.column, false);
  auto* const to = static_cast<Complex<Real>*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 8; ++q) to[std::int64_t(block.index(q)) * columns] = v[q];
}

template <typename Real>
__device__ void restore_points(Complex<Real> (&v)[8], Split const& s,
                               BlockTransform<Real, Lines::interleaved> const& block, Place const& at) {
  int const columns = 1 << s.log2_columns;
  auto const* const from = static_cast<Complex<Real> const*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 8; ++q) v[q] = from[std::int64_t(block.index(q)) * columns];
  twiddle(v, s, block, at.column, true);
  block.inverse(v);
  turn(v, s, block, at.column, true);
}

template <typename Real>
__global__ __launch_bounds__(most_threads) void restore_split_images_kernel(__grid_constant__ ImageSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& s = p.split;
  auto const& a = p.rows;
  BlockTransform<Real, Lines::interleaved> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[8];
  restore_points(v, s, block, at);
  int const unit = int(at.plane / a.chunk.images), image = int(at.plane % a.chunk.images);
  store_image(v, a, image_offset(a.chunk, a.to.strides, unit, image),
              image_offset(a.chunk, a.from.strides, unit, image), channel_of(a.chunk, unit),
              block.place() * columns + at.column, block.share() * columns, points(s));
}

// A causal level: points b .. 2b - 1 of the wrapped line, the block behind the one that was transformed.
template <typename Real>
__global__ __launch_bounds__(most_threads) void add_split_images_kernel(__grid_constant__ ImageSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& s = p.split;
  BlockTransform<Real, Lines::interleaved> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[8];
  restore_points(v, s, block, at);
  auto* const sums = static_cast<Real*>(p.sums) + at.plane / p.pieces * p.sum_stride +
                     (2 * (at.plane % p.pieces) + 1) * p.piece_points + at.column;
#pragma unroll
  for (int q = 0; q < 8; ++q) sums[std::int64_t(block.index(q)) * columns] -= v[q].im;
}

template <typename Real, typename Stored>
__global__ __launch_bounds__(most_threads) void split_filters_kernel(__grid_constant__ FilterSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& [s, a] = p;
  BlockTransform<Real, Lines::interleaved> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[8];
  load_taps(v, a, a.axes[2], image_offset(a.chunk, a.from.strides, int(at.plane), 0), 0, 0,
            block.place() * columns + at.column, block.share() * columns, points(s));
  turn(v, s, block, at.column, false);
  block.forward(v);
  twiddle(v, s, block, at.column, false);
  auto* const to = static_cast<Complex<Stored>*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 8; ++q) to[std::int64_t(block.index(q)) * columns] = converted<Stored>(v[q]);
}

// Leaves z[n] = line[n] - i line[n + M] in place.
template <typename Real>
__global__ __launch_bounds__(most_threads) void restore_split_filters_kernel(__grid_constant__ FilterSplit const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& s = p.split;
  BlockTransform<Real, Lines::interleaved> const block(s.transform, shared);
  auto const at = place_of(s, block);
  int const columns = 1 << s.log2_columns;
  Complex<Real> v[8];
  restore_points(v, s, block, at);
  auto* const to = static_cast<Complex<Real>*>(s.spectra) + at.plane * s.stride + at.column;
#pragma unroll
  for (int q = 0; q < 8; ++q) to[std::int64_t(block.index(q)) * columns] = v[q];
}

template <typename Real>
__global__ __launch_bounds__(most_threads) void gather_taps_kernel(__grid_constant__ FilterSplit const p) {
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
                                 .stream = stream},
                                arguments);
}

template <typename Real>
void restore_filters(FilterSplit const& p, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter back";
  launch_split<restore_split_filters_kernel<Real>, Real>(name, p.split, p.rows.chunk.units, p, stream);
  constexpr int threads = 256;
  std::int64_t const items = (p.rows.axes[2].filter + threads - 1) / threads * p.rows.chunk.units;
  faltung::cuda::launch<gather_taps_kernel<Real>>(
      name, {.grid = dim3(unsigned(items < most_blocks ? items : most_blocks)), .threads = threads, .stream = stream},
      p);
}

}  // namespace

void transform_split(ImageSplit const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed images";
  std::int64_t const planes = std::int64_t(p.rows.chunk.units) * p.rows.chunk.images * p.pieces;
  if (precision == Precision::twice)
    launch_split<split_images_kernel<double>, double>(name, p.split, planes, p, stream);
  else
    launch_split<split_images_kernel<float>, float>(name, p.split, planes, p, stream);
}

void restore_split(ImageSplit const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed images back";
  std::int64_t const planes = std::int64_t(p.rows.chunk.units) * p.rows.chunk.images * p.pieces;
  if (p.sums && precision == Precision::twice)
    launch_split<add_split_images_kernel<double>, double>(name, p.split, planes, p, stream);
  else if (p.sums)
    launch_split<add_split_images_kernel<float>, float>(name, p.split, planes, p, stream);
  else if (precision == Precision::twice)
    launch_split<restore_split_images_kernel<double>, double>(name, p.split, planes, p, stream);
  else
    launch_split<restore_split_images_kernel<float>, float>(name, p.split, planes, p, stream);
}

void transform_split(FilterSplit const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter";
  if (precision == Precision::twice)
    launch_split<split_filters_kernel<double, double>, double>(name, p.split, p.rows.chunk.units, p, stream);
  else
    launch_split<split_filters_kernel<float, float>, float>(name, p.split, p.rows.chunk.units, p, stream);
}

void restore_split(FilterSplit const& p, Precision precision, cudaStream_t stream) {
  if (precision == Precision::twice)
    restore_filters<double>(p, stream);
  else
    restore_filters<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
