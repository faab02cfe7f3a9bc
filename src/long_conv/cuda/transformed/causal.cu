// Kernels of one causal axis, exact to the bit: kernels.hpp says how.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_threads = 512, points_held = 8;
constexpr int block_points = 1 << log2_causal_block;  // a thread's own block of a segment

// blockIdx.y is the level; lines of a block are units.
template <typename Real, typename Stored>
__global__ __launch_bounds__(most_threads) void causal_filters_kernel(__grid_constant__ CausalFilters const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  int const log2_length = log2_causal_block + int(blockIdx.y);
  BlockTransform<Real, Lines::contiguous, 3> const block({{1, log2_length}, 0, p.twiddles[log2_length], nullptr},
                                                         shared);
  int const lines = int(blockDim.x) / block.share();
  std::int64_t const unit = std::int64_t(blockIdx.x) * lines + block.line();
  if (std::int64_t(blockIdx.x) * lines >= p.rows.chunk.units) return;  // the whole block
  bool const inside = unit < p.rows.chunk.units;
  auto const& a = p.rows;
  Complex<Real> v[points_held] = {};
  if (inside) {
    TapAxis axis = a.axes[2];
    axis.positions = axis.head = 2 * block.length();
    load_taps(v, a, axis, image_offset(a.chunk, a.from.strides, int(unit), 0), 0, 0, block.place(), block.share(),
              block.length());
    Real const scale = Real(1) / Real(block.length());
#pragma unroll
    for (int q = 0; q < points_held; ++q) v[q] = v[q] * scale;
    turn(v, p.rotations[log2_length], block.place(), block.share());
  }
  block.forward(v);
  if (!inside) return;
  auto* const to = static_cast<Complex<Stored>*>(a.spectra) + unit * a.unit_stride + block.length() - block_points;
#pragma unroll
  for (int q = 0; q < points_held; ++q) to[block.index(q)] = converted<Stored>(v[q]);
}

// y of a thread's own block of points, from its own taps.
template <typename Real>
__device__ void thread_block(Real* y, Real const* x, CausalRows const& p, std::int64_t filter) {
  Real taps[block_points], input[block_points];
  thread_visit(p.k_dtype, [&]<typename T>(T) {
    T const* const from = static_cast<T const*>(p.k.data) + filter;
#pragma unroll
    for (int m = 0; m < block_points; ++m)
      taps[m] = m < p.taps ? thread_widened<Real>(from[m * p.k.strides.spatial[2]]) : Real(0);
  });
#pragma unroll
  for (int i = 0; i < block_points; ++i) input[i] = x[i];
#pragma unroll
  for (int i = 0; i < block_points; ++i) {
    Real sum = 0;
#pragma unroll
    for (int j = 0; j <= i; ++j) sum += input[j] * taps[i - j];
    y[i] += sum;
  }
}

// The level of blocks of 2^fixed points for one pair of them: x of the first, y of the second.
template <int fixed, typename Real>
__device__ void add_level(Real* y, Real const* x, CausalRows const& p, Complex<Real> const* filter, void* shared) {
  BlockTransform<Real, Lines::contiguous, 3, 1, fixed> const block({{1, fixed}, 0, p.twiddles[fixed], nullptr}, shared);
  auto const* const rotation = static_cast<Complex<Real> const*>(p.rotations[fixed]);
  Complex<Real> v[points_held];
#pragma unroll
  for (int q = 0; q < points_held; ++q) v[q] = rotation[block.index(q)] * x[block.index(q)];
  block.forward(v);
#pragma unroll
  for (int q = 0; q < points_held; ++q) v[q] = v[q] * filter[block.index(q)];
  block.inverse(v);
  turn_back(v, rotation, block.place(), block.share());
#pragma unroll
  for (int q = 0; q < points_held; ++q) y[(1 << fixed) + block.index(q)] -= v[q].im;
}

template <typename Visit>
__device__ __forceinline__ void visit_length(int log2_length, Visit&& visit) {
  switch (log2_length) {
    case 4:
      return visit.template operator()<4>();
    case 5:
      return visit.template operator()<5>();
    case 6:
      return visit.template operator()<6>();
    case 7:
      return visit.template operator()<7>();
    case 8:
      return visit.template operator()<8>();
    case 9:
      return visit.template operator()<9>();
    case 10:
      return visit.template operator()<10>();
    case 11:
      return visit.template operator()<11>();
    case 12:
      return visit.template operator()<12>();
  }
  static_assert(log2_causal_block == 4 && most_log2_segment == 13);
}

// A line of 2^(log2_segment - 4) threads for each segment of each image; several lines a block where they are short.
template <typename Real>
__global__ __launch_bounds__(most_threads, sizeof(Real) == sizeof(float)
                                               ? 2
                                               : 1) void causal_rows_kernel(__grid_constant__ CausalRows const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& a = p.rows;
  int const points = int(blockDim.x) * block_points, segment = 1 << p.log2_segment;
  Real* const x = reinterpret_cast<Real*>(shared + sizeof(Complex<Real>) * (points / 2 + points / 16));
  Real* const y = x + points;
  std::int64_t const images = std::int64_t(a.chunk.units) * a.chunk.images;

  // Where point i of the block belongs.
  struct Line {
    std::int64_t image;
    int unit, first;  // point of the image
    bool inside;
  };
  auto const line_of = [&](int i) {
    std::int64_t const index = (std::int64_t(blockIdx.x) * points + i) >> p.log2_segment;
    std::int64_t const image = index / p.segments;
    bool const inside = image < images;
    return Line{inside ? image : 0, inside ? int(image / a.chunk.images) : 0, int(index % p.segments) * segment,
                inside};
  };
  auto const offset = [&](Line const& line, Strides const& strides) {
    return image_offset(a.chunk, strides, line.unit, int(line.image % a.chunk.images));
  };

  thread_visit(a.dtype, [&]<typename T>(T) {
    T const* const from = static_cast<T const*>(a.from.data);
#pragma unroll 4
    for (int i = threadIdx.x; i < points; i += blockDim.x) {
      auto const line = line_of(i);
      int const at = line.first + (i & (segment - 1));
      bool const inside = line.inside && at < a.extent;
      x[i] =
          inside ? thread_widened<Real>(from[offset(line, a.from.strides) + at * a.from.strides.spatial[2]]) : Real(0);
      y[i] = inside && p.sums ? static_cast<Real const*>(p.sums)[line.image * p.sum_stride + at] : Real(0);
    }
  });
  __syncthreads();
  int const mine = int(threadIdx.x) * block_points;
  auto const line = line_of(mine);
  thread_block(y + mine, x + mine, p, image_offset(a.chunk, p.k.strides, line.unit, 0));

  for (int log2_length = log2_causal_block; log2_length < p.log2_segment; ++log2_length) {
    __syncthreads();
    visit_length(log2_length, [&]<int fixed> {
      constexpr int length = 1 << fixed;
      int const pair = int(threadIdx.x) >> (fixed - 3) << (fixed + 1);
      add_level<fixed>(
          y + pair, x + pair, p,
          static_cast<Complex<Real> const*>(p.filters) + line_of(pair).unit * p.filter_stride + length - block_points,
          shared);
    });
  }
  __syncthreads();

  thread_visit(a.dtype, [&]<typename T>(T) {
    T* const to = static_cast<T*>(a.to.data);
    for (int i = threadIdx.x; i < points; i += blockDim.x) {
      auto const here = line_of(i);
      int const at = here.first + (i & (segment - 1));
      if (!here.inside || at >= a.extent) continue;
      Real value = y[i];
      if (a.shortcut.data)
        value += x[i] * faltung::cuda::thread_load<Real>(a.shortcut.data, a.shortcut_dtype,
                                                         channel_of(a.chunk, here.unit) * a.shortcut.stride);
      to[offset(here, a.to.strides) + at * a.to.strides.spatial[2]] = thread_rounded<T>(value);
    }
  });
}

template <typename Real>
void multiply(CausalRows const& p, cudaStream_t stream) {
  int const line = 1 << (p.log2_segment - log2_causal_block), threads = std::max(line, 256);
  std::int64_t const lines = std::int64_t(p.rows.chunk.units) * p.rows.chunk.images * p.segments,
                     at_once = threads / line;
  std::size_t const points = std::size_t(threads) * block_points;
  faltung::cuda::launch<causal_rows_kernel<Real>>(
      "cuda.transformed causal axis",
      {.grid = dim3(unsigned((lines + at_once - 1) / at_once)),
       .threads = unsigned(threads),
       .shared_bytes = sizeof(Complex<Real>) * (points / 2 + points / 16) + 2 * sizeof(Real) * points,
       .stream = stream,
       .starts_early = true},
      p);
}

template <typename Real, typename Stored>
void transform_filters(CausalFilters const& p, cudaStream_t stream) {
  int const levels = p.log2_segment - log2_causal_block;
  if (levels == 0) return;
  int const log2_longest = p.log2_segment - 1, log2_lines = log2_block_lines(true, Length{1, log2_longest});
  std::size_t const points = std::size_t(1) << (log2_longest + log2_lines);
  faltung::cuda::launch<causal_filters_kernel<Real, Stored>>(
      "cuda.transformed causal filters",
      {.grid = dim3(unsigned((p.rows.chunk.units + (1 << log2_lines) - 1) >> log2_lines), unsigned(levels)),
       .threads = unsigned(points / points_held),
       .shared_bytes = sizeof(Complex<Real>) * (points + points / points_held),
       .stream = stream,
       .starts_early = true},
      p);
}

}  // namespace

void transform_causal_filters(CausalFilters const& p, Precision compute, Precision stored, cudaStream_t stream) {
  if (compute == Precision::single)
    transform_filters<float, float>(p, stream);
  else if (stored == Precision::single)
    transform_filters<double, float>(p, stream);
  else
    transform_filters<double, double>(p, stream);
}

void multiply_causal_rows(CausalRows const& p, Precision precision, cudaStream_t stream) {
  if (precision == Precision::twice)
    multiply<double>(p, stream);
  else
    multiply<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
