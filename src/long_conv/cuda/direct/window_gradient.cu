// dk of small filters. A thread takes eight taps of a tap row and a share of the rows of points; sums of a row of a
// tile go to double. Blocks leave sums for each tap, which a second kernel adds up in their order.
#include <algorithm>

#include "cuda/device.hpp"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/direct/window.cuh"

namespace faltung::long_conv::cuda::direct {
namespace {

struct GradientTile {
  int height, width, pitch, point_pitch;
  int groups, tap_rows, row_shares;  // of eight taps, and threads that share the rows of points
  template <typename Compute>
  static GradientTile of(WindowGradient const& p) {
    int const groups = (int(p.axes[2].filter) + outputs - 1) / outputs, tap_rows = int(p.axes[1].filter);
    int const width = tile_columns + groups * outputs + at_once;
    return {tile_rows + tap_rows - 1,
            width,
            window_pitch<Compute>(width),
            window_pitch<Compute>(tile_columns),
            groups,
            tap_rows,
            std::min(tile_rows, window_threads / (groups * tap_rows))};
  }
  template <typename Compute>
  std::size_t bytes() const {
    return std::max(sizeof(Compute) * (height * pitch + tile_rows * point_pitch),
                    sizeof(double) * window_threads * outputs);
  }
};

struct Tiles {
  std::int64_t columns, rows, items;  // items: of a unit
};
__host__ __device__ inline Tiles tiles_of(WindowGradient const& p) {
  Tiles tiles{(p.axes[2].in + tile_columns - 1) / tile_columns, (p.axes[1].in + tile_rows - 1) / tile_rows, 0};
  tiles.items = tiles.columns * tiles.rows * p.axes[0].in * (p.per_sample ? 1 : p.batch);
  return tiles;
}
__host__ __device__ inline std::int64_t tap_count(WindowGradient const& p) {
  return p.axes[0].filter * p.axes[1].filter * p.axes[2].filter;
}

// sums[q] += sum over j of y[j] x[j + 7 - q], over the columns of a tile.
template <typename Compute>
__device__ __forceinline__ void thread_slide_points(double (&sums)[outputs], Compute const* x, Compute const* y) {
  Compute sum[outputs] = {}, window[outputs + at_once];
#pragma unroll
  for (int q = 0; q < outputs; q += at_once) {
    auto const some = *reinterpret_cast<Four<Compute> const*>(x + q);
#pragma unroll
    for (int t = 0; t < at_once; ++t) window[q + t] = some.value[t];
  }
#pragma unroll 2
  for (int j = 0; j < tile_columns; j += at_once) {
    auto const some = *reinterpret_cast<Four<Compute> const*>(x + j + outputs);
    auto const points = *reinterpret_cast<Four<Compute> const*>(y + j);
#pragma unroll
    for (int t = 0; t < at_once; ++t) window[outputs + t] = some.value[t];
#pragma unroll
    for (int t = 0; t < at_once; ++t)
#pragma unroll
      for (int q = 0; q < outputs; ++q) sum[q] += points.value[t] * window[t + outputs - 1 - q];
#pragma unroll
    for (int q = 0; q < outputs; ++q) window[q] = window[q + at_once];
  }
#pragma unroll
  for (int q = 0; q < outputs; ++q) sums[q] += sum[q];
}

template <typename Compute>
__global__ __launch_bounds__(window_threads) void gradient_kernel(__grid_constant__ WindowGradient const p,
                                                                  __grid_constant__ GradientTile const g,
                                                                  std::int64_t shares) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  Compute* const window = reinterpret_cast<Compute*>(shared);
  Compute* const points = window + g.height * g.pitch;
  auto const& axes = p.axes;
  auto const tiles = tiles_of(p);
  std::int64_t const unit = blockIdx.x / shares, share = blockIdx.x % shares, f0 = blockIdx.y;
  std::int64_t const c = unit % p.channels, first_sample = unit / p.channels;
  int const row_share = int(threadIdx.x) % g.row_shares, combination = int(threadIdx.x) / g.row_shares;
  int const group = combination % g.groups, f1 = combination / g.groups;
  bool const works = f1 < g.tap_rows;
  // The window begins as many columns early as the last tap of the last group reaches.
  int const reach = g.groups * outputs - 1;

  double sums[outputs] = {};
  for (std::int64_t item = share; item < tiles.items; item += shares) {
    std::int64_t const tile = item / tiles.columns, plane = tile / tiles.rows;
    std::int64_t const first_column = item % tiles.columns * tile_columns, first_row = tile % tiles.rows * tile_rows,
                       i0 = plane % axes[0].in, b = first_sample + plane / axes[0].in;
    std::int64_t const j0 = resolve(axes[0], i0 + axes[0].centre - f0);
    if (j0 < 0) continue;
    auto const offset = [&](Strides const& s, std::int64_t at0) {
      return b * s.batch + c * s.channel + at0 * s.spatial[0];
    };
    auto rows = axes[1], columns = axes[2];
    __syncthreads();
    block_stage_window(window, g.pitch, p.x, offset(p.x.strides, j0), rows, columns,
                       int(first_row + rows.centre) - (g.tap_rows - 1), int(first_column + columns.centre) - reach,
                       g.height, g.width);
    rows.circular = columns.circular = false;  // no points beyond the grid
    block_stage_window(points, g.point_pitch, p.dy, offset(p.dy.strides, i0), rows, columns, int(first_row),
                       int(first_column), tile_rows, tile_columns);
    __syncthreads();
    if (!works) continue;
    for (int row = row_share; row < tile_rows; row += g.row_shares)
      thread_slide_points(sums, window + (row + g.tap_rows - 1 - f1) * g.pitch + (g.groups - 1 - group) * outputs,
                          points + row * g.point_pitch);
  }
  __syncthreads();
  double* const all = reinterpret_cast<double*>(shared);  // [thread][outputs]
#pragma unroll
  for (int q = 0; q < outputs; ++q) all[threadIdx.x * outputs + q] = sums[q];
  __syncthreads();
  for (int i = threadIdx.x; i < g.groups * g.tap_rows * outputs; i += window_threads) {
    int const q = i % outputs, at = i / outputs, f2 = at % g.groups * outputs + q;
    if (f2 >= axes[2].filter) continue;
    double sum = 0;
    for (int s = 0; s < g.row_shares; ++s) sum += all[(at * g.row_shares + s) * outputs + q];
    p.partial[(unit * shares + share) * tap_count(p) + (f0 * axes[1].filter + at / g.groups) * axes[2].filter + f2] =
        sum;
  }
}

__global__ __launch_bounds__(window_threads) void add_shares_kernel(__grid_constant__ WindowGradient const p,
                                                                    std::int64_t shares, std::int64_t units) {
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  std::int64_t const taps = tap_count(p);
  for (std::int64_t i = std::int64_t(blockIdx.x) * window_threads + threadIdx.x; i < units * taps;
       i += std::int64_t(gridDim.x) * window_threads) {
    std::int64_t const unit = i / taps, tap = i % taps, f2 = tap % p.axes[2].filter, rest = tap / p.axes[2].filter;
    double sum = 0;
    for (std::int64_t s = 0; s < shares; ++s) sum += p.partial[(unit * shares + s) * taps + tap];
    auto const& s = p.out.strides;
    thread_store(p.out.data, p.out_dtype,
                 unit / p.channels * s.batch + unit % p.channels * s.channel + rest / p.axes[1].filter * s.spatial[0] +
                     rest % p.axes[1].filter * s.spatial[1] + f2 * s.spatial[2],
                 sum);
  }
}

std::int64_t unit_count(WindowGradient const& p) { return p.per_sample ? p.channels * p.batch : p.channels; }

template <typename Compute>
void run(WindowGradient const& p, cudaStream_t stream) {
  auto const tile = GradientTile::of<Compute>(p);
  std::int64_t const units = unit_count(p), shares = gradient_shares(p);
  faltung::cuda::launch<gradient_kernel<Compute>>("cuda.direct gradient of windows",
                                                  {.grid = dim3(unsigned(units * shares), unsigned(p.axes[0].filter)),
                                                   .threads = window_threads,
                                                   .shared_bytes = tile.template bytes<Compute>(),
                                                   .stream = stream,
                                                   .starts_early = true},
                                                  p, tile, shares);
  std::int64_t const blocks = (units * tap_count(p) + window_threads - 1) / window_threads;
  faltung::cuda::launch<add_shares_kernel>("cuda.direct gradient of windows",
                                           {.grid = dim3(unsigned(std::min<std::int64_t>(blocks, 1 << 20))),
                                            .threads = window_threads,
                                            .stream = stream,
                                            .starts_early = true},
                                           p, shares, units);
}

}  // namespace

std::int64_t gradient_shares(WindowGradient const& p) {
  // Four blocks for each multiprocessor, of at least four tiles each.
  std::int64_t const wanted = 4 * faltung::cuda::multiprocessors(),
                     blocks = std::max<std::int64_t>(1, unit_count(p) * p.axes[0].filter);
  return std::clamp<std::int64_t>((wanted + blocks - 1) / blocks, 1, std::max<std::int64_t>(1, tiles_of(p).items / 4));
}

std::size_t gradient_workspace(WindowGradient const& p) {
  return sizeof(double) * unit_count(p) * gradient_shares(p) * tap_count(p);
}

void gradient_of_windows(WindowGradient const& p, Compute compute, cudaStream_t stream) {
  if (compute == Compute::twice)
    run<double>(p, stream);
  else
    run<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::direct
