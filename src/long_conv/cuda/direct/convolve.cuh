// The kernel behind convolve.hpp. A block owns `rows` output rows of 8 `width` points. Per step it stages, for each
// share of the taps, 32 taps of one filter row and the stretch of the input row that each output row meets, boundary
// resolved, in the type of computation; a thread slides a window of 12 inputs over its 8 outputs. Sums of 32 products
// go to double: no longer chain in fp32.
#pragma once
#include "cuda/element.cuh"
#include "long_conv/cuda/direct/convolve.hpp"

namespace faltung::long_conv::cuda::direct {

using faltung::cuda::thread_load, faltung::cuda::thread_store;

inline constexpr int outputs = 8;  // per thread, along the innermost axis
inline constexpr int chunk = 32;   // taps per step

// 16 bytes more than needed make the distance between rows an odd number of 16-byte words: no bank conflicts between
// rows.
template <typename Compute>
constexpr int window_length(int width) {
  return outputs * width + chunk + 16 / int(sizeof(Compute));
}

template <typename Compute>
constexpr std::size_t shared_bytes(DirectPolicy const& policy) {
  std::size_t const staging =
      sizeof(Compute) * policy.splits * (policy.rows * window_length<Compute>(policy.width) + chunk);
  std::size_t const sums = sizeof(double) * policy.threads() * outputs;
  return staging > sums ? staging : sums;
}

// Taps [first, first + count) of an axis that meet the input for some output in [low, high].
struct TapRange {
  std::int64_t first, count;
};

__device__ inline TapRange taps_that_meet(ConvolutionAxis const& axis, std::int64_t low, std::int64_t high) {
  if (axis.circular) return {0, axis.filter};
  std::int64_t first = low + axis.centre - (axis.in - 1), last = high + axis.centre;
  if (first < 0) first = 0;
  if (last > axis.filter - 1) last = axis.filter - 1;
  return {first, last < first ? 0 : last - first + 1};
}

// The input index behind position `at`, or -1 outside the grid.
__device__ inline std::int64_t resolve(ConvolutionAxis const& axis, std::int64_t at) {
  if (axis.circular) {
    at %= axis.in;
    return at < 0 ? at + axis.in : at;
  }
  return at >= 0 && at < axis.in ? at : -1;
}

// sums[e] += sum over q < count of window[e + q] taps[q].
template <typename Compute>
__device__ inline void thread_slide(Compute const* window, Compute const* taps, int count, double (&sums)[outputs]) {
  constexpr int group = 16 / int(sizeof(Compute));
  struct alignas(16) Words {
    Compute value[group];
  };
  Compute partial[outputs] = {}, x[outputs + group];
#pragma unroll
  for (int e = 0; e < outputs; e += group)
    *reinterpret_cast<Words*>(x + e) = *reinterpret_cast<Words const*>(window + e);
#pragma unroll
  for (int q0 = 0; q0 < chunk; q0 += group) {
    if (q0 >= count) break;
    auto const next = *reinterpret_cast<Words const*>(window + outputs + q0);
    auto const tap = *reinterpret_cast<Words const*>(taps + q0);
#pragma unroll
    for (int q = 0; q < group; ++q) x[outputs + q] = next.value[q];
#pragma unroll
    for (int q = 0; q < group; ++q)
      if (q0 + q < count)  // a product with a tap that does not exist could be 0 * Inf
#pragma unroll
        for (int e = 0; e < outputs; ++e) partial[e] += x[e + q] * tap.value[q];
#pragma unroll
    for (int e = 0; e < outputs; ++e) x[e] = x[e + group];
  }
#pragma unroll
  for (int e = 0; e < outputs; ++e) sums[e] += partial[e];
}

template <typename Compute>
__global__ __launch_bounds__(128) void convolve_kernel(__grid_constant__ Convolution const p,
                                                       __grid_constant__ DirectPolicy const policy) {
  extern __shared__ __align__(16) unsigned char shared[];
  int const length = window_length<Compute>(policy.width);
  int const column = threadIdx.x % policy.width, row = threadIdx.x / policy.width % policy.rows,
            split = threadIdx.x / (policy.width * policy.rows);
  Compute* const windows = reinterpret_cast<Compute*>(shared);  // [split][row][length]
  Compute* const window = windows + (split * policy.rows + row) * length;
  Compute* const taps = windows + policy.splits * policy.rows * length + split * chunk;
  double* const shares = reinterpret_cast<double*>(shared);  // [split][outputs][row, column], after the last step

  auto const& axes = p.axes;
  std::int64_t const tile = outputs * policy.width, columns = (axes[2].out + tile - 1) / tile;
  std::int64_t const out_rows = axes[0].out * axes[1].out, row_tiles = (out_rows + policy.rows - 1) / policy.rows;
  for (std::int64_t item = blockIdx.x; item < columns * row_tiles * p.channels * p.batch; item += gridDim.x) {
    std::int64_t const start = item % columns * tile, first_row = item / columns % row_tiles * policy.rows;
    std::int64_t const c = item / (columns * row_tiles) % p.channels, b = item / (columns * row_tiles * p.channels);
    std::int64_t last_row = first_row + policy.rows - 1;
    if (last_row >= out_rows) last_row = out_rows - 1;
    std::int64_t const low0 = first_row / axes[1].out, high0 = last_row / axes[1].out;
    bool const one_plane = low0 == high0;
    TapRange const range0 = taps_that_meet(axes[0], low0, high0);
    TapRange const range1 = taps_that_meet(axes[1], one_plane ? first_row % axes[1].out : 0,
                                           one_plane ? last_row % axes[1].out : axes[1].out - 1);
    std::int64_t const end = start + tile < axes[2].out ? start + tile : axes[2].out;
    TapRange const range2 = taps_that_meet(axes[2], start, end - 1);
    std::int64_t const chunks = (range2.count + chunk - 1) / chunk;
    std::int64_t const steps = p.reduction * range0.count * range1.count * chunks;
    std::int64_t const out_row = first_row + row;
    std::int64_t const o0 = out_row / axes[1].out, o1 = out_row % axes[1].out;

    double sums[outputs] = {};
    for (std::int64_t step = 0; step < steps; step += policy.splits) {
      std::int64_t const mine = step + split;
      std::int64_t const f = range2.first + mine % chunks * chunk;
      std::int64_t const f1 = range1.first + mine / chunks % range1.count;
      std::int64_t const f0 = range0.first + mine / (chunks * range1.count) % range0.count;
      std::int64_t const r = b + mine / (chunks * range1.count * range0.count);
      std::int64_t const left = range2.first + range2.count - f;
      int const count = mine < steps ? int(left < chunk ? left : chunk) : 0;
      __syncthreads();
      if (count) {
        std::int64_t const j0 = resolve(axes[0], o0 + axes[0].centre - f0),
                           j1 = resolve(axes[1], o1 + axes[1].centre - f1);
        bool const meets = out_row < out_rows && j0 >= 0 && j1 >= 0;
        auto const& s = p.in.strides;
        std::int64_t const from = r * s.batch + c * s.channel + j0 * s.spatial[0] + j1 * s.spatial[1];
        for (int i = column; i < length; i += policy.width) {
          std::int64_t const j = meets ? resolve(axes[2], start + axes[2].centre - (f + count - 1) + i) : -1;
          window[i] = j >= 0 ? thread_load<Compute>(p.in.data, p.in.dtype, from + j * s.spatial[2]) : Compute(0);
        }
        auto const& t = p.filter.strides;
        for (int q = row * policy.width + column; q < chunk; q += policy.rows * policy.width)
          taps[q] = q < count ? thread_load<Compute>(p.filter.data, p.filter.dtype,
                                                     r * t.batch + c * t.channel + f0 * t.spatial[0] +
                                                         f1 * t.spatial[1] + (f + count - 1 - q) * t.spatial[2])
                              : Compute(0);
      }
      __syncthreads();
      if (count == chunk)
        thread_slide(window + outputs * column, taps, chunk, sums);
      else
        thread_slide(window + outputs * column, taps, count, sums);
    }

    __syncthreads();
    int const places = policy.rows * policy.width;
#pragma unroll
    for (int e = 0; e < outputs; ++e) shares[(split * outputs + e) * places + row * policy.width + column] = sums[e];
    __syncthreads();
    for (int i = threadIdx.x; i < places * outputs; i += blockDim.x) {
      int const place = i % places, e = i / places;
      std::int64_t const at_row = first_row + place / policy.width, o2 = start + place % policy.width * outputs + e;
      if (at_row >= out_rows || o2 >= axes[2].out) continue;
      double sum = 0;
      for (int share = 0; share < policy.splits; ++share) sum += shares[(share * outputs + e) * places + place];
      auto const offset = [&](Strides const& s) {
        return b * s.batch + c * s.channel + at_row / axes[1].out * s.spatial[0] + at_row % axes[1].out * s.spatial[1] +
               o2 * s.spatial[2];
      };
      if (p.shortcut.data)
        sum += thread_load<double>(p.shortcut.data, p.shortcut.dtype, c * p.shortcut.strides.channel) *
               thread_load<double>(p.in.data, p.in.dtype, offset(p.in.strides));
      thread_store(p.out.data, p.out_dtype, offset(p.out.strides), sum);
    }
    __syncthreads();
  }
}

}  // namespace faltung::long_conv::cuda::direct
