// A block moves a tile of 64 points x 32 channels through shared memory: lanes are neighbouring channels on the side of
// the view, neighbouring points on the side of the planes.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/plane_copies.hpp"

namespace faltung::long_conv::cuda {
namespace {

constexpr int threads = 256, tile_points = 64, tile_channels = 32;
constexpr int pitch = tile_channels + 1;  // elements: no bank conflicts between points, whatever their size
constexpr int steps = tile_points * tile_channels / threads;

template <typename T>
__device__ void block_copy_tile(PlaneCopy const& copy, bool to_planes, std::uint32_t tile, void* shared) {
  T* const held = static_cast<T*>(shared);  // [points][channels]
  auto const rest = copy.by_channels.quotient(tile), sample = copy.by_points.quotient(rest);
  std::uint32_t const first_channel = copy.by_channels.remainder(tile, rest) * tile_channels,
                      first_point = copy.by_points.remainder(rest, sample) * tile_points;
  auto const& s = copy.strides;
  int const lane = int(threadIdx.x) % tile_channels, row = int(threadIdx.x) / tile_channels;
  std::uint32_t const channel = first_channel + lane;
  auto const in_view = [&](int step) {
    std::uint32_t const point = first_point + step * (threads / tile_channels) + row;
    auto const plane = copy.by_plane.quotient(point), in_plane = copy.by_plane.remainder(point, plane);
    auto const line = copy.by_row.quotient(in_plane);
    std::int64_t const at = sample * s.batch + channel * s.channel + plane * s.spatial[0] + line * s.spatial[1] +
                            copy.by_row.remainder(in_plane, line) * s.spatial[2];
    return point < copy.points && channel < copy.channels ? at : -1;
  };
  auto const place = [&](int step) { return (step * (threads / tile_channels) + row) * pitch + lane; };
  // On the other side: the point and the channel of the tile.
  int const point = int(threadIdx.x) % tile_points, line = int(threadIdx.x) / tile_points;
  auto const plane_channel = [&](int step) { return step * (threads / tile_points) + line; };
  auto const in_planes = [&](int step) {
    std::uint32_t const c = first_channel + plane_channel(step);
    return (std::int64_t(sample) * copy.channels + c) * copy.points + first_point + point;
  };
  auto const inside = [&](int step) {
    return first_point + point < copy.points && first_channel + plane_channel(step) < copy.channels;
  };
  T const* const from = static_cast<T const*>(copy.from);
  T* const to = static_cast<T*>(copy.to);
  T values[steps];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    if (to_planes) {
      auto const at = in_view(step);
      values[step] = at >= 0 ? from[at] : T(0);
    } else {
      values[step] = inside(step) ? from[in_planes(step)] : T(0);
    }
  }
#pragma unroll
  for (int step = 0; step < steps; ++step)
    held[to_planes ? place(step) : point * pitch + plane_channel(step)] = values[step];
  __syncthreads();
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    if (to_planes) {
      if (inside(step)) to[in_planes(step)] = held[point * pitch + plane_channel(step)];
    } else if (auto const at = in_view(step); at >= 0) {
      to[at] = held[place(step)];
    }
  }
}

__global__ __launch_bounds__(threads) void copy_planes_kernel(__grid_constant__ PlaneCopies const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& copy = p.copies[blockIdx.y];
  if (blockIdx.x >= copy.by_channels.value * copy.by_points.value * copy.batch) return;
  if (copy.element_bytes == 2)
    block_copy_tile<std::uint16_t>(copy, p.to_planes, blockIdx.x, shared);
  else if (copy.element_bytes == 4)
    block_copy_tile<std::uint32_t>(copy, p.to_planes, blockIdx.x, shared);
  else
    block_copy_tile<std::uint64_t>(copy, p.to_planes, blockIdx.x, shared);
}

}  // namespace

void add_copy(PlaneCopies& p, ConstView const& view, void* planes, Dtype dtype, std::int64_t batch,
              std::int64_t channels, std::array<std::int64_t, 3> const& extents) {
  std::int64_t const points = extents[0] * extents[1] * extents[2];
  void* const of_view = const_cast<void*>(view.data);  // written where the copy goes there
  p.copies[p.count++] = {.from = p.to_planes ? of_view : planes,
                         .to = p.to_planes ? planes : of_view,
                         .strides = view.strides,
                         .element_bytes = int(size_of(dtype)),
                         .batch = std::uint32_t(batch),
                         .channels = std::uint32_t(channels),
                         .points = std::uint32_t(points),
                         .by_plane = extents[1] * extents[2],
                         .by_row = extents[2],
                         .by_channels = (channels + tile_channels - 1) / tile_channels,
                         .by_points = (points + tile_points - 1) / tile_points};
}

void copy_planes(PlaneCopies const& p, cudaStream_t stream) {
  std::uint32_t most = 0;
  int bytes = 0;
  for (int i = 0; i < p.count; ++i) {
    most = std::max(most, p.copies[i].by_channels.value * p.copies[i].by_points.value * p.copies[i].batch);
    bytes = std::max(bytes, p.copies[i].element_bytes);
  }
  if (most == 0) return;
  faltung::cuda::launch<copy_planes_kernel>("planes of channels last",
                                            {.grid = dim3(most, unsigned(p.count)),
                                             .threads = threads,
                                             .shared_bytes = std::size_t(tile_points * pitch * bytes),
                                             .stream = stream,
                                             .starts_early = true},
                                            p);
}

}  // namespace faltung::long_conv::cuda
