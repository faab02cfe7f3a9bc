// y and dx of small filters. A thread takes eight outputs of a row, the lanes of a warp 8 rows x 32 columns.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/direct/window.cuh"

namespace faltung::long_conv::cuda::direct {
namespace {

struct Window {
  int height, width, pitch, taps_width;
  template <typename Compute>
  static Window of(Convolution const& p) {
    int const taps_width = rounded_up(int(p.axes[2].filter), at_once), width = tile_columns + taps_width;
    return {tile_rows + int(p.axes[1].filter) - 1, width, window_pitch<Compute>(width), taps_width};
  }
  template <typename Compute>
  std::size_t bytes(Convolution const& p) const {
    int const window = std::max(height * pitch, tile_rows * tile_columns);
    return sizeof(Compute) * (rounded_up(window, 16) + p.axes[1].filter * taps_width);
  }
};

// total[q] += sum over u of x[q + u] taps[u].
template <typename Compute>
__device__ __forceinline__ void thread_slide_taps(Compute (&total)[outputs], Compute const* x, Compute const* taps,
                                                  int count) {
  Compute sum[outputs] = {}, window[outputs + at_once];
#pragma unroll
  for (int q = 0; q < outputs; q += at_once) {
    auto const some = *reinterpret_cast<Four<Compute> const*>(x + q);
#pragma unroll
    for (int t = 0; t < at_once; ++t) window[q + t] = some.value[t];
  }
#pragma unroll 2
  for (int u = 0; u < count; u += at_once) {
    auto const some = *reinterpret_cast<Four<Compute> const*>(x + u + outputs);
    auto const k = *reinterpret_cast<Four<Compute> const*>(taps + u);
#pragma unroll
    for (int t = 0; t < at_once; ++t) window[outputs + t] = some.value[t];
#pragma unroll
    for (int t = 0; t < at_once; ++t)
#pragma unroll
      for (int q = 0; q < outputs; ++q) sum[q] += k.value[t] * window[q + t];
#pragma unroll
    for (int q = 0; q < outputs; ++q) window[q] = window[q + at_once];
  }
#pragma unroll
  for (int q = 0; q < outputs; ++q) total[q] += sum[q];
}

template <typename Compute>
__global__ __launch_bounds__(window_threads) void windows_kernel(__grid_constant__ Convolution const p,
                                                                 __grid_constant__ Window const w) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  Compute* const window = reinterpret_cast<Compute*>(shared);
  Compute* const taps = window + rounded_up(std::max(w.height * w.pitch, tile_rows * tile_columns), 16);
  auto const& axes = p.axes;
  std::int64_t const tiles2 = (axes[2].out + tile_columns - 1) / tile_columns,
                     tiles1 = (axes[1].out + tile_rows - 1) / tile_rows;
  int const lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  int const row = warp / 2 * 8 + lane % 8, column = (warp % 2 * 4 + lane / 8) * outputs;
  for (std::int64_t item = blockIdx.x; item < tiles2 * tiles1 * axes[0].out * p.channels * p.batch; item += gridDim.x) {
    std::int64_t const tile = item / tiles2, plane = tile / tiles1, image = plane / axes[0].out;
    std::int64_t const first_column = item % tiles2 * tile_columns, first_row = tile % tiles1 * tile_rows,
                       o0 = plane % axes[0].out, c = image % p.channels, b = image / p.channels;
    Compute total[outputs] = {};  // of the planes of taps, each a sum of its own
    for (std::int64_t f0 = 0; f0 < axes[0].filter; ++f0) {
      std::int64_t const j0 = resolve(axes[0], o0 + axes[0].centre - f0);
      if (j0 < 0) continue;
      __syncthreads();
      auto const& s = p.in.strides;
      block_stage_window(window, w.pitch, p.in, b * s.batch + c * s.channel + j0 * s.spatial[0], axes[1], axes[2],
                         int(first_row + axes[1].centre - (axes[1].filter - 1)),
                         int(first_column + axes[2].centre - (axes[2].filter - 1)), w.height, w.width);
      // Taps from the last to the first.
      auto const& t = p.filter.strides;
      faltung::cuda::thread_visit(p.filter.dtype, [&]<typename T>(T) {
        T const* const from = static_cast<T const*>(p.filter.data) + b * t.batch + c * t.channel + f0 * t.spatial[0];
        for (int i = threadIdx.x; i < int(axes[1].filter) * w.taps_width; i += window_threads) {
          int const v = i / w.taps_width, u = i % w.taps_width;
          taps[i] = u < axes[2].filter
                        ? faltung::cuda::thread_widened<Compute>(
                              from[(axes[1].filter - 1 - v) * t.spatial[1] + (axes[2].filter - 1 - u) * t.spatial[2]])
                        : Compute(0);
        }
      });
      __syncthreads();
      Compute sums[outputs] = {};
      for (int v = 0; v < int(axes[1].filter); ++v)
        thread_slide_taps(sums, window + (row + v) * w.pitch + column, taps + v * w.taps_width, w.taps_width);
#pragma unroll
      for (int q = 0; q < outputs; ++q) total[q] += sums[q];
    }
    // Results through shared memory, so that lanes store neighbours.
    __syncthreads();
#pragma unroll
    for (int q = 0; q < outputs; ++q) window[row * tile_columns + column + q] = total[q];
    __syncthreads();
    Compute const shortcut =
        p.shortcut.data ? thread_load<Compute>(p.shortcut.data, p.shortcut.dtype, c * p.shortcut.strides.channel)
                        : Compute(0);
    auto const offset = [&](Strides const& s, int i, int j) {
      return b * s.batch + c * s.channel + o0 * s.spatial[0] + (first_row + i) * s.spatial[1] +
             (first_column + j) * s.spatial[2];
    };
    faltung::cuda::thread_visit(p.out_dtype, [&]<typename T>(T) {
      for (int i = int(threadIdx.x) / tile_columns; i < tile_rows; i += window_threads / tile_columns) {
        int const j = int(threadIdx.x) % tile_columns;
        if (first_row + i >= axes[1].out || first_column + j >= axes[2].out) continue;
        Compute value = window[i * tile_columns + j];
        if (p.shortcut.data)
          value += shortcut *
                   faltung::cuda::thread_widened<Compute>(static_cast<T const*>(p.in.data)[offset(p.in.strides, i, j)]);
        static_cast<T*>(p.out.data)[offset(p.out.strides, i, j)] = faltung::cuda::thread_rounded<T>(value);
      }
    });
  }
}

template <typename Compute>
void run(Convolution const& p, cudaStream_t stream) {
  auto const window = Window::of<Compute>(p);
  std::int64_t const items = (p.axes[2].out + tile_columns - 1) / tile_columns *
                             ((p.axes[1].out + tile_rows - 1) / tile_rows) * p.axes[0].out * p.channels * p.batch;
  constexpr std::int64_t most_blocks = 1 << 30;
  faltung::cuda::launch<windows_kernel<Compute>>("cuda.direct windows",
                                                 {.grid = dim3(unsigned(std::min(items, most_blocks))),
                                                  .threads = window_threads,
                                                  .shared_bytes = window.template bytes<Compute>(p),
                                                  .stream = stream,
                                                  .starts_early = true},
                                                 p, window);
}

}  // namespace

bool in_windows(Problem const& p) {
  constexpr std::int64_t most_extent = 32, most_taps_in_space = 32;
  std::int64_t taps = 1;
  for (auto const& axis : p.axes) {
    if (axis.filter > most_extent || axis.extent >= std::int64_t(1) << 30) return false;
    if (axis.centre < -axis.extent || axis.centre > axis.extent + axis.filter) return false;  // no tap meets an input
    taps *= axis.filter;
  }
  if (p.axes[1].extent == 1 || p.axes[2].extent == 1) return false;
  // 4 million points in 2D, fp32, both directions, ms: 0.17 for 7 x 7 taps and 0.29 for 13 x 13, 0.0011 a tap and 0.11
  // beside, over the share of the tiles that the grid fills; transforms 0.26 to 0.29. In 3D 0.30 for 27 taps and 0.39
  // for 64; transforms 0.38.
  if (p.axes[0].extent > 1 && taps > most_taps_in_space) return false;
  auto const tiles = [](std::int64_t extent, std::int64_t points) { return (extent + points - 1) / points * points; };
  std::int64_t const held = tiles(p.axes[1].extent, tile_rows) * tiles(p.axes[2].extent, tile_columns);
  return (taps + 100) * held <= 250 * p.axes[1].extent * p.axes[2].extent;
}

void convolve_windows(Convolution const& p, Compute compute, cudaStream_t stream) {
  if (compute == Compute::twice)
    run<double>(p, stream);
  else
    run<float>(p, stream);
}

}  // namespace faltung::long_conv::cuda::direct
