// A block takes four tiles at a time, all with the same taps: lanes are eight rows of each, a warp eight outputs of
// every row, first near one corner of the tile, then near the opposite one, which makes all warps about equally long.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/elements.cuh"
#include "long_conv/cuda/transformed/tiles.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int tile = causal_tile, threads = 256, tiles_at_once = 4, turns = 4;
constexpr int outputs = 8, taps_at_once = 4;
constexpr int above = 7, before = 8;  // rows and columns of zeros

// Rows lie so far apart that eight of them meet different banks with 16 bytes each.
template <typename Real>
inline constexpr int pitch = before + tile + (sizeof(Real) == sizeof(float) ? 4 : 2);
template <typename Real>
inline constexpr int tile_size = (above + tile) * pitch<Real>;
template <typename Real>
inline constexpr std::size_t shared_bytes = sizeof(Real) * (tiles_at_once * tile_size<Real> + tile * tile);

template <typename Real>
struct alignas(16) Four {
  Real value[taps_at_once];
};

// Outputs first .. first + 7 of a row from the rows up to `rows` - 1 above it; x: the tile's row at column 0.
template <typename Real>
__device__ __forceinline__ void thread_product(Real (&total)[outputs], Real const* x, Real const* taps, int rows,
                                               int first) {
#pragma unroll
  for (int q = 0; q < outputs; ++q) total[q] = 0;
  for (int d = 0; d < rows; ++d, x -= pitch<Real>, taps += tile) {
    Real sum[outputs], window[outputs + taps_at_once];
#pragma unroll
    for (int q = 0; q < outputs; ++q) sum[q] = 0;
#pragma unroll
    for (int q = 0; q < outputs; q += taps_at_once) {
      auto const some = *reinterpret_cast<Four<Real> const*>(x + first + q);
#pragma unroll
      for (int t = 0; t < taps_at_once; ++t) window[q + t] = some.value[t];
    }
#pragma unroll 2
    for (int e = 0; e < first + outputs; e += taps_at_once) {
#pragma unroll
      for (int q = outputs - 1; q >= 0; --q) window[q + taps_at_once] = window[q];
      auto const some = *reinterpret_cast<Four<Real> const*>(x + first - e - taps_at_once);
      auto const k = *reinterpret_cast<Four<Real> const*>(taps + e);
#pragma unroll
      for (int t = 0; t < taps_at_once; ++t) window[t] = some.value[t];
#pragma unroll
      for (int t = 0; t < taps_at_once; ++t)
#pragma unroll
        for (int q = 0; q < outputs; ++q) sum[q] += k.value[t] * window[q + taps_at_once - t];
    }
#pragma unroll
    for (int q = 0; q < outputs; ++q) total[q] += sum[q];
  }
}

template <typename Real>
__global__ __launch_bounds__(threads) void tiles_kernel(__grid_constant__ TileProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  constexpr int pitch = transformed::pitch<Real>, size = tile_size<Real>;
  Real* const tiles = reinterpret_cast<Real*>(shared);
  Real* const taps = tiles + tiles_at_once * size;
  auto const unit = p.by_groups.quotient(blockIdx.x), group = p.by_groups.remainder(blockIdx.x, unit);
  auto const unit_sample = p.by_channels.quotient(unit), channel = p.by_channels.remainder(unit, unit_sample);
  int const items = int(p.by_tiles.value) * (p.per_sample ? 1 : p.batch);

  thread_visit(p.k_dtype, [&]<typename T>(T) {
    T const* const from =
        static_cast<T const*>(p.k.data) + unit_sample * p.k.strides.batch + channel * p.k.strides.channel;
    for (int i = threadIdx.x; i < tile * tile; i += threads) {
      int const d = i / tile, e = i % tile;
      taps[i] = d < p.row_taps && e < p.column_taps
                    ? thread_widened<Real>(from[d * p.k.strides.spatial[1] + e * p.k.strides.spatial[2]])
                    : Real(0);
    }
  });
  for (int i = threadIdx.x; i < tiles_at_once * size; i += threads) tiles[i] = 0;

  struct Place {
    std::int64_t sample;
    int row, column;
    bool exists;
  };
  auto const place_of = [&](int item) {
    auto const sample = p.by_tiles.quotient(item), at = p.by_tiles.remainder(item, sample);
    auto const row = p.by_tile_columns.quotient(at);
    return Place{std::int64_t(unit_sample) + sample, int(row) * tile, int(p.by_tile_columns.remainder(at, row)) * tile,
                 item < items};
  };
  auto const element = [&](Place const& at, Strides const& s, int row, int column) {
    return at.sample * s.batch + channel * s.channel + (at.row + row) * s.spatial[1] +
           (at.column + column) * s.spatial[2];
  };
  int const lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  int const groups = int(p.by_groups.value);
  for (int turn = 0; turn < turns; ++turn) {
    int const first_item = (turn * groups + int(group)) * tiles_at_once;
    if (first_item >= items) break;
    __syncthreads();
    thread_visit(p.x_dtype, [&]<typename T>(T) {
      for (int t = 0; t < tiles_at_once; ++t) {
        auto const at = place_of(first_item + t);
#pragma unroll
        for (int i = threadIdx.x; i < tile * tile; i += threads) {
          int const row = i / tile, column = i % tile;
          tiles[t * size + (above + row) * pitch + before + column] =
              at.exists && at.row + row < p.rows && at.column + column < p.columns
                  ? thread_widened<Real>(static_cast<T const*>(p.x.data)[element(at, p.x.strides, row, column)])
                  : Real(0);
        }
      }
    });
    __syncthreads();
    Real total[2][outputs];
    Real* const mine = tiles + lane / 8 * size + above * pitch + before;  // row 0 of the lane's tile
    int const octet[2] = {warp / 4, 3 - warp / 4}, first[2] = {warp % 4 * outputs, (3 - warp % 4) * outputs};
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      Real y[outputs];
      int const row = 8 * octet[half] + lane % 8;
      thread_product(y, mine + row * pitch, taps, 8 * octet[half] + 8, first[half]);
#pragma unroll
      for (int q = 0; q < outputs; ++q) {
        if (half == 0) total[0][q] = y[q];
        if (half == 1) total[1][q] = y[q];
      }
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int q = 0; q < outputs; ++q) mine[(8 * octet[half] + lane % 8) * pitch + first[half] + q] = total[half][q];
    __syncthreads();
    if (p.turned_sums) {
      for (int t = 0; t < tiles_at_once; ++t) {
        auto const at = place_of(first_item + t);
#pragma unroll
        for (int i = threadIdx.x; i < tile * tile; i += threads) {
          int const row = i % tile, column = i / tile;
          if (!at.exists || at.row + row >= p.rows || at.column + column >= p.columns) continue;
          tiles[t * size + (above + row) * pitch + before + column] += static_cast<Real const*>(
              p.turned_sums)[((at.sample * p.columns + at.column + column) * p.channels + channel) * p.rows + at.row +
                             row];
        }
      }
      __syncthreads();
    }
    Real const shortcut = p.shortcut.data ? faltung::cuda::thread_load<Real>(p.shortcut.data, p.shortcut_dtype,
                                                                             channel * p.shortcut.stride)
                                          : Real(0);
    thread_visit(p.x_dtype, [&]<typename T>(T) {
      for (int t = 0; t < tiles_at_once; ++t) {
        auto const at = place_of(first_item + t);
#pragma unroll
        for (int i = threadIdx.x; i < tile * tile; i += threads) {
          int const row = i / tile, column = i % tile;
          if (!at.exists || at.row + row >= p.rows || at.column + column >= p.columns) continue;
          Real value = tiles[t * size + (above + row) * pitch + before + column];
          if (p.sums)
            value += static_cast<Real const*>(
                p.sums)[((at.sample * p.channels + channel) * p.rows + at.row + row) * p.columns + at.column + column];
          if (p.shortcut.data)
            value +=
                shortcut * thread_widened<Real>(static_cast<T const*>(p.x.data)[element(at, p.x.strides, row, column)]);
          static_cast<T*>(p.y.data)[element(at, p.y.strides, row, column)] = thread_rounded<T>(value);
        }
      }
    });
  }
}

// A block takes 4 rows of 64 points.
template <typename Real>
__global__ __launch_bounds__(threads) void store_sums_kernel(__grid_constant__ TileProduct const p) {
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  std::int64_t const rows = std::int64_t(p.batch) * p.channels * p.planes * p.rows;
  std::int64_t const line = std::int64_t(blockIdx.x) * (threads / 64) + threadIdx.x / 64;
  if (line >= rows) return;
  std::int64_t const plane = line / p.rows, unit = plane / p.planes, row = line % p.rows, channel = unit % p.channels;
  auto const element = [&](Strides const& s) {
    return unit / p.channels * s.batch + channel * s.channel + plane % p.planes * s.spatial[0] + row * s.spatial[1];
  };
  Real const shortcut =
      p.shortcut.data ? faltung::cuda::thread_load<Real>(p.shortcut.data, p.shortcut_dtype, channel * p.shortcut.stride)
                      : Real(0);
  auto const* const sums = static_cast<Real const*>(p.sums) + line * p.columns;
  thread_visit(p.x_dtype, [&]<typename T>(T) {
    T const* const x = static_cast<T const*>(p.x.data) + element(p.x.strides);
    T* const y = static_cast<T*>(p.y.data) + element(p.y.strides);
    for (int column = threadIdx.x % 64; column < p.columns; column += 64) {
      Real value = sums[column];
      if (p.shortcut.data) value += shortcut * thread_widened<Real>(x[column * p.x.strides.spatial[2]]);
      y[column * p.y.strides.spatial[2]] = thread_rounded<T>(value);
    }
  });
}

template <typename Real>
void run(TileProduct const& p, std::int64_t blocks, cudaStream_t stream) {
  faltung::cuda::launch<tiles_kernel<Real>>("cuda.transformed causal tiles",
                                            {.grid = dim3(unsigned(blocks)),
                                             .threads = threads,
                                             .shared_bytes = shared_bytes<Real>,
                                             .stream = stream,
                                             .starts_early = true},
                                            p);
}

}  // namespace

void store_sums(TileProduct const& p, Precision precision, cudaStream_t stream) {
  std::int64_t const rows = std::int64_t(p.batch) * p.channels * p.planes * p.rows;
  faltung::cuda::LaunchShape const shape{.grid = dim3(unsigned((rows + threads / 64 - 1) / (threads / 64))),
                                         .threads = threads,
                                         .stream = stream,
                                         .starts_early = true};
  if (precision == Precision::twice)
    faltung::cuda::launch<store_sums_kernel<double>>("cuda.transformed causal sums", shape, p);
  else
    faltung::cuda::launch<store_sums_kernel<float>>("cuda.transformed causal sums", shape, p);
}

void multiply_tiles(TileProduct p, Precision precision, cudaStream_t stream) {
  std::int64_t const columns = (p.columns + tile - 1) / tile, tiles = columns * ((p.rows + tile - 1) / tile);
  std::int64_t const units = p.per_sample ? std::int64_t(p.channels) * p.batch : p.channels;
  std::int64_t const items = tiles * (p.per_sample ? 1 : p.batch);
  std::int64_t const groups = (items + turns * tiles_at_once - 1) / (turns * tiles_at_once);
  p.by_tile_columns = columns, p.by_tiles = tiles, p.by_groups = groups, p.by_channels = p.channels;
  if (precision == Precision::twice)
    run<double>(p, units * groups, stream);
  else
    run<float>(p, units * groups, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
