// A tile of 32 x 64 points and the window of input that taps reach from it, in shared memory.
#pragma once
#include "cuda/element.cuh"
#include "long_conv/cuda/direct/convolve.cuh"
#include "long_conv/cuda/direct/window.hpp"

namespace faltung::long_conv::cuda::direct {

inline constexpr int tile_rows = 32, tile_columns = 64, window_threads = 256;
inline constexpr int at_once = 4;  // taps, or points of the gradient

constexpr int rounded_up(int value, int to) { return (value + to - 1) / to * to; }

// Elements between rows: eight rows meet different banks with 16 bytes each.
template <typename Compute>
constexpr int window_pitch(int width) {
  constexpr int group = 16 / int(sizeof(Compute));
  int const groups = (width + group - 1) / group;
  return (groups + 1 - groups % 2) * group;
}

template <typename Compute>
struct alignas(16) Four {
  Compute value[at_once];
};

// resolve() for a position not far from the grid.
__device__ inline int resolve_near(ConvolutionAxis const& axis, int at) {
  int const extent = int(axis.in);
  if (axis.circular) {
    while (at < 0) at += extent;
    while (at >= extent) at -= extent;
    return at;
  }
  return at >= 0 && at < extent ? at : -1;
}

// Points [first_row, + height) x [first_column, + width) of a plane of two axes.
template <typename Compute>
__device__ inline void block_stage_window(Compute* to, int pitch, Operand const& from, std::int64_t offset,
                                          ConvolutionAxis const& rows, ConvolutionAxis const& columns, int first_row,
                                          int first_column, int height, int width) {
  constexpr int step = window_threads / 32;
  int const first = int(threadIdx.x) / 32;
  bool const inside =
      first_row >= 0 && first_row + height <= rows.in && first_column >= 0 && first_column + width <= columns.in;
  std::int64_t const stride = from.strides.spatial[1];
  faltung::cuda::thread_visit(from.dtype, [&]<typename T>(T) {
    T const* const data = static_cast<T const*>(from.data) + offset;
    for (int column = int(threadIdx.x) % 32; column < width; column += 32) {
      Compute* const target = to + column;
      if (inside) {
        T const* at = data + (first_column + column) * from.strides.spatial[2] + (first_row + first) * stride;
#pragma unroll 4
        for (int row = first; row < height; row += step, at += step * stride)
          target[row * pitch] = faltung::cuda::thread_widened<Compute>(*at);
        continue;
      }
      int const j = resolve_near(columns, first_column + column);
      T const* const at = data + j * from.strides.spatial[2];
#pragma unroll 4
      for (int row = first; row < height; row += step) {
        int const i = resolve_near(rows, first_row + row);
        target[row * pitch] = i >= 0 && j >= 0 ? faltung::cuda::thread_widened<Compute>(at[i * stride]) : Compute(0);
      }
    }
  });
}

}  // namespace faltung::long_conv::cuda::direct
