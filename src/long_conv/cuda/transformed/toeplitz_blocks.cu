// The product of toeplitz.cu over a long axis: blocks of 32 points with themselves directly, and what a block gets from
// earlier ones by transforms of 64 points, each block transformed once, with a sum over blocks for each of their
// frequencies. Eight threads transform a block of one column.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/block_transform.cuh"
#include "long_conv/cuda/transformed/toeplitz.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int block_points = 1 << (log2_toeplitz_slots - 1), slots = 1 << log2_toeplitz_slots;
constexpr int share = slots / 8, pitch = slots + share;                  // threads and elements of a transform
constexpr int separator = outputs - 1, held = separator + block_points;  // zeros before each block of x
constexpr int most_threads = 512;

// Lines of the transforms: block, column. Whole rounds of all threads.
constexpr int padded_lines(int blocks, int log2_columns, int threads) {
  int const at_once = threads / share;
  return ((blocks << log2_columns) + at_once - 1) / at_once * at_once;
}
constexpr int blocks_of(int points) { return (points + block_points - 1) / block_points; }
constexpr int threads_of(int points, int log2_columns) { return blocks_of(points) << log2_columns <= 64 ? 256 : 512; }

template <typename Real>
constexpr std::size_t shared_bytes(int points, int log2_columns) {
  int const lines = padded_lines(blocks_of(points), log2_columns, threads_of(points, log2_columns));
  return sizeof(Complex<Real>) *
         (2 * std::size_t(lines) * pitch + (std::size_t(blocks_of(points) * held + block_points) << log2_columns));
}

template <typename Real>
using Block = BlockTransform<Real, Lines::contiguous, 3, 1, log2_toeplitz_slots>;

// The spectra of blocks add up: for each column and slot, from the last outputs to the first, in place.
template <typename Real>
__device__ void thread_sum(Complex<Real>* x, Complex<Real> const* filter, int blocks, int stride) {
  for (int first = (blocks - 1) / outputs * outputs; first >= 0; first -= outputs) {
    Complex<Real> y[outputs], k[outputs];  // k[(e - j) % 8] is the distance from block j of a turn to output e
#pragma unroll
    for (int e = 0; e < outputs; ++e) {
      y[e] = {};
      bool const there = first + e > 0 && first + e < blocks;
      k[e] = there ? filter[(first + e) * stride] : Complex<Real>{};
    }
    for (int turn = 0; turn <= first; turn += outputs) {
#pragma unroll
      for (int j = 0; j < outputs; ++j) {
        auto const from = turn + j < blocks ? x[(turn + j) * stride] : Complex<Real>{};
#pragma unroll
        for (int e = 0; e < outputs; ++e) multiply_add(y[e], k[(e - j) & (outputs - 1)], from);
        int const next = first - turn - j - 1;
        k[(outputs - 1 - j) & (outputs - 1)] = next > 0 ? filter[next * stride] : Complex<Real>{};
      }
    }
#pragma unroll
    for (int e = 0; e < outputs; ++e)
      if (first + e < blocks) x[(first + e) * stride] = y[e];
  }
}

template <typename Real>
__global__ __launch_bounds__(most_threads) void multiply_blocks_kernel(__grid_constant__ ToeplitzProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  int const log2_columns = p.log2_columns, columns = 1 << log2_columns, threads = int(blockDim.x);
  int const blocks = blocks_of(p.points), at_once = threads / share,
            lines = padded_lines(blocks, log2_columns, threads);
  auto* const filters = reinterpret_cast<Complex<Real>*>(shared);  // [block, column][pitch]
  auto* const spectra = filters + lines * pitch;                   // likewise
  auto* const x = spectra + lines * pitch;                         // [block][held][column]
  auto* const taps = x + ((blocks * held) << log2_columns);        // [point][column]
  int const unit = int(blockIdx.x / (p.lines / columns));
  std::int64_t const first_line = std::int64_t(blockIdx.x % (p.lines / columns)) * columns;
  Transform const transform{{1, log2_toeplitz_slots}, 0, p.twiddles, nullptr};

  auto const* const k = static_cast<Complex<Real> const*>(p.filters) + unit * p.filter_stride + first_line;
  auto const tap = [&](int i, int column) {
    return i < p.taps ? k[std::int64_t(i) * p.lines + column] : Complex<Real>{};
  };
  for (int i = threadIdx.x; i < block_points << log2_columns; i += threads)
    taps[i] = tap(i >> log2_columns, i & (columns - 1));
  for (int i = threadIdx.x; i < (blocks * separator) << log2_columns; i += threads) {
    int const block = (i >> log2_columns) / separator, row = (i >> log2_columns) % separator;
    x[((block * held + row) << log2_columns) + (i & (columns - 1))] = {};
  }
  for (int first = 0; first < lines; first += at_once) {
    Block<Real> const block(transform, filters + first * pitch);
    int const line = first + block.line(), distance = line >> log2_columns, column = line & (columns - 1);
    Complex<Real> v[8];
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      // Offsets from `distance` blocks: 0 .. 31, and below 0 at the end.
      int const n = block.index(q), offset = n < block_points ? n : n - slots;
      v[q] = n != block_points && distance > 0 && distance < blocks
                 ? tap(distance * block_points + offset, column) * (Real(1) / Real(slots))
                 : Complex<Real>{};
    }
    block.forward(v);
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 8; ++q) filters[line * pitch + block.index(q)] = v[q];
  }

  for (int image = blockIdx.y; image < p.images_per_unit; image += gridDim.y) {
    auto* const at = static_cast<Complex<Real>*>(p.images) +
                     (std::int64_t(unit) * p.images_per_unit + image) * p.image_stride + first_line;
    __syncthreads();
    for (int i = threadIdx.x; i < (blocks * block_points) << log2_columns; i += threads) {
      int const point = i >> log2_columns, column = i & (columns - 1);
      int const row = point / block_points * held + separator + point % block_points;
      x[(row << log2_columns) + column] =
          point < p.points ? at[std::int64_t(point) * p.lines + column] : Complex<Real>{};
    }
    __syncthreads();
    for (int first = 0; first < lines; first += at_once) {
      Block<Real> const block(transform, spectra + first * pitch);
      int const line = first + block.line(), number = line >> log2_columns, column = line & (columns - 1);
      Complex<Real> v[8] = {};
      if (number < blocks) {
#pragma unroll
        for (int q = 0; q < 4; ++q) v[q] = x[((number * held + separator + block.index(q)) << log2_columns) + column];
      }
      block.template forward<true>(v);
      __syncthreads();
#pragma unroll
      for (int q = 0; q < 8; ++q) spectra[line * pitch + block.index(q)] = v[q];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < slots << log2_columns; i += threads) {
      int const place = (i / slots) * pitch + i % slots;
      thread_sum(spectra + place, filters + place, blocks, pitch << log2_columns);
    }
    __syncthreads();
    for (int first = 0; first < lines; first += at_once) {
      Block<Real> const block(transform, spectra + first * pitch);
      int const line = first + block.line();
      Complex<Real> v[8];
#pragma unroll
      for (int q = 0; q < 8; ++q) v[q] = spectra[line * pitch + block.index(q)];
      __syncthreads();
      block.inverse(v);
      __syncthreads();
#pragma unroll
      for (int q = 0; q < 4; ++q) spectra[line * pitch + block.index(q)] = v[q];
    }
    __syncthreads();
    // Warps take the same outputs of different blocks: equally long.
    for (int i = threadIdx.x; i < (blocks * (block_points / outputs)) << log2_columns; i += threads) {
      int const column = i & (columns - 1), number = (i >> log2_columns) % blocks,
                start = (i >> log2_columns) / blocks * outputs;
      Complex<Real> y[outputs];
      thread_product(y, x + ((number * held + separator) << log2_columns) + column, taps + column, start, block_points,
                     columns);
      auto const* const earlier = spectra + ((number << log2_columns) + column) * pitch + start;
#pragma unroll
      for (int e = 0; e < outputs; ++e) {
        int const point = number * block_points + start + e;
        if (point < p.points) at[std::int64_t(point) * p.lines + column] = y[e] + earlier[e];
      }
    }
  }
}

template <typename Real>
void run(ToeplitzProduct p, cudaStream_t stream) {
  // Four columns are a sector of fp32; fewer where shared memory asks for it.
  std::size_t const budget = faltung::cuda::shared_memory_budget();
  p.log2_columns = 2;
  while (p.log2_columns > 0 && shared_bytes<Real>(p.points, p.log2_columns) > budget) --p.log2_columns;
  std::int64_t const blocks = std::int64_t(p.lines >> p.log2_columns) * p.units;
  std::int64_t const wanted = 2 * faltung::cuda::multiprocessors();
  auto const shares = std::clamp<std::int64_t>((wanted + blocks - 1) / blocks, 1, std::min(p.images_per_unit, 65535));
  faltung::cuda::launch<multiply_blocks_kernel<Real>>("cuda.transformed causal product in blocks",
                                                      {.grid = dim3(unsigned(blocks), unsigned(shares)),
                                                       .threads = unsigned(threads_of(p.points, p.log2_columns)),
                                                       .shared_bytes = shared_bytes<Real>(p.points, p.log2_columns),
                                                       .stream = stream,
                                                       .starts_early = true},
                                                      p);
}

}  // namespace

std::size_t toeplitz_blocks_shared_bytes(int points, Precision precision) {
  return precision == Precision::twice ? shared_bytes<double>(points, 0) : shared_bytes<float>(points, 0);
}

void multiply_toeplitz_blocks(ToeplitzProduct const& p, Precision precision, cudaStream_t stream) {
  if (precision == Precision::twice)
    run<double>(p, stream);
  else
    run<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
