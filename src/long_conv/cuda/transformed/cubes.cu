// Three causal axes: each cube of 16 x 16 x 16 points with itself, plus what the other parts summed up. Lanes are eight
// rows of four planes, a warp eight outputs of each row, first near one corner of the cube, then near the opposite one.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/elements.cuh"
#include "long_conv/cuda/transformed/tiles.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int cube = causal_block_of_pairs, threads = 256, outputs = 8;
constexpr int above = 7, before = 8, planes_before = 3;  // rows, columns and planes of zeros

template <typename Real>
inline constexpr int pitch = before + cube + (sizeof(Real) == sizeof(float) ? 4 : 2);
template <typename Real>
inline constexpr int plane_size = (above + cube) * pitch<Real>;
template <typename Real>
inline constexpr std::size_t shared_bytes = sizeof(Real) *
                                            ((planes_before + cube) * plane_size<Real> + cube * cube * cube);

// Outputs first .. first + 7 of a row from `rows` rows and `planes` planes.
template <typename Real>
__device__ void thread_product(Real (&total)[outputs], Real const* x, Real const* taps, int planes, int rows,
                               int first) {
#pragma unroll
  for (int q = 0; q < outputs; ++q) total[q] = 0;
  for (int plane = 0; plane < planes; ++plane) {
    Real sum[outputs];
#pragma unroll
    for (int q = 0; q < outputs; ++q) sum[q] = 0;
    for (int d = 0; d < rows; ++d) {
      Real const* const from = x - plane * plane_size<Real> - d * pitch<Real> + first;
      Real const* const k = taps + (plane * cube + d) * cube;
      Real window[2 * outputs - 1];
#pragma unroll
      for (int q = 0; q < outputs - 1; ++q) window[q] = from[q + 1];
#pragma unroll 1
      for (int e = 0; e < first + outputs; e += outputs) {
#pragma unroll
        for (int q = outputs - 2; q >= 0; --q) window[q + outputs] = window[q];
#pragma unroll
        for (int q = 0; q < outputs; ++q) window[q] = from[q - e - (outputs - 1)];
#pragma unroll
        for (int t = 0; t < outputs; ++t)
#pragma unroll
          for (int q = 0; q < outputs; ++q) sum[q] += k[e + t] * window[outputs - 1 + q - t];
      }
    }
#pragma unroll
    for (int q = 0; q < outputs; ++q) total[q] += sum[q];
  }
}

template <typename Real>
__global__ __launch_bounds__(threads) void cubes_kernel(__grid_constant__ TileProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  constexpr int pitch = transformed::pitch<Real>, size = plane_size<Real>;
  Real* const held = reinterpret_cast<Real*>(shared);
  Real* const x = held + planes_before * size + above * pitch + before;
  Real* const taps = held + (planes_before + cube) * size;
  auto const unit = p.by_groups.quotient(blockIdx.x), item = p.by_groups.remainder(blockIdx.x, unit);
  auto const unit_sample = p.by_channels.quotient(unit), channel = p.by_channels.remainder(unit, unit_sample);
  auto const image = p.by_tiles.quotient(item), at = p.by_tiles.remainder(item, image);
  std::int64_t const sample = std::int64_t(unit_sample) + image;
  int const columns = int(p.by_tile_columns.value), rows = (p.rows + cube - 1) / cube;
  int const first_column = int(at) % columns * cube, first_row = int(at) / columns % rows * cube,
            first_plane = int(at) / (columns * rows) * cube;
  auto const element = [&](Strides const& s, int plane, int row, int column) {
    return sample * s.batch + channel * s.channel + (first_plane + plane) * s.spatial[0] +
           (first_row + row) * s.spatial[1] + (first_column + column) * s.spatial[2];
  };
  auto const exists = [&](int plane, int row, int column) {
    return first_plane + plane < p.planes && first_row + row < p.rows && first_column + column < p.columns;
  };
  // body(plane, row, column) for the thread's points.
  auto const each_point = [&](auto&& body) {
    for (int i = threadIdx.x; i < cube * cube * cube; i += threads) body(i / (cube * cube), i / cube % cube, i % cube);
  };

  for (int i = threadIdx.x; i < (planes_before + cube) * size; i += threads) held[i] = 0;
  thread_visit(p.k_dtype, [&]<typename T>(T) {
    auto const& s = p.k.strides;
    T const* const from = static_cast<T const*>(p.k.data) + unit_sample * s.batch + channel * s.channel;
    each_point([&](int d0, int d1, int d2) {
      taps[(d0 * cube + d1) * cube + d2] =
          d0 < p.plane_taps && d1 < p.row_taps && d2 < p.column_taps
              ? thread_widened<Real>(from[d0 * s.spatial[0] + d1 * s.spatial[1] + d2 * s.spatial[2]])
              : Real(0);
    });
  });
  __syncthreads();
  thread_visit(p.x_dtype, [&]<typename T>(T) {
    each_point([&](int plane, int row, int column) {
      if (exists(plane, row, column))
        x[plane * size + row * pitch + column] =
            thread_widened<Real>(static_cast<T const*>(p.x.data)[element(p.x.strides, plane, row, column)]);
    });
  });
  __syncthreads();
  int const lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  Real total[2][outputs];
  int place[2];
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    int const corner = half ? 15 - warp : warp;  // of 4 groups of planes, 2 of rows, 2 of columns
    int const plane = corner / 4 * 4, row = corner / 2 % 2 * 8, first = corner % 2 * outputs;
    int const mine = (plane + lane / 8) * size + (row + lane % 8) * pitch;
    Real y[outputs];
    thread_product(y, x + mine, taps, plane + 4, row + 8, first);
#pragma unroll
    for (int q = 0; q < outputs; ++q) {
      if (half == 0) total[0][q] = y[q];
      if (half == 1) total[1][q] = y[q];
    }
    if (half == 0) place[0] = mine + first;
    if (half == 1) place[1] = mine + first;
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int q = 0; q < outputs; ++q) x[place[half] + q] = total[half][q];
  __syncthreads();
  Real const shortcut =
      p.shortcut.data ? faltung::cuda::thread_load<Real>(p.shortcut.data, p.shortcut_dtype, channel * p.shortcut.stride)
                      : Real(0);
  thread_visit(p.x_dtype, [&]<typename T>(T) {
    each_point([&](int plane, int row, int column) {
      if (!exists(plane, row, column)) return;
      Real value = x[plane * size + row * pitch + column];
      if (p.sums)
        value += static_cast<Real const*>(
            p.sums)[((sample * p.channels + channel) * p.planes + first_plane + plane) * p.rows * p.columns +
                    (first_row + row) * p.columns + first_column + column];
      if (p.shortcut.data)
        value +=
            shortcut * thread_widened<Real>(static_cast<T const*>(p.x.data)[element(p.x.strides, plane, row, column)]);
      static_cast<T*>(p.y.data)[element(p.y.strides, plane, row, column)] = thread_rounded<T>(value);
    });
  });
}

template <typename Real>
void run(TileProduct const& p, std::int64_t blocks, cudaStream_t stream) {
  faltung::cuda::launch<cubes_kernel<Real>>("cuda.transformed causal cubes",
                                            {.grid = dim3(unsigned(blocks)),
                                             .threads = threads,
                                             .shared_bytes = shared_bytes<Real>,
                                             .stream = stream,
                                             .starts_early = true},
                                            p);
}

}  // namespace

std::size_t cubes_shared_bytes(Precision precision) {
  return precision == Precision::twice ? shared_bytes<double> : shared_bytes<float>;
}

void multiply_cubes(TileProduct p, Precision precision, cudaStream_t stream) {
  auto const cubes = [](int points) { return std::int64_t(points + cube - 1) / cube; };
  std::int64_t const tiles = cubes(p.planes) * cubes(p.rows) * cubes(p.columns);
  std::int64_t const units = p.per_sample ? std::int64_t(p.channels) * p.batch : p.channels;
  p.by_tile_columns = cubes(p.columns), p.by_tiles = tiles, p.by_channels = p.channels;
  p.by_groups = tiles * (p.per_sample ? 1 : p.batch);
  if (precision == Precision::twice)
    run<double>(p, units * p.by_groups.value, stream);
  else
    run<float>(p, units * p.by_groups.value, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
