// Grids of up to 16 x 16 points, padded to 32 x 32: a lane transforms whole lines in registers. A warp has two images;
// its lanes are their rows, then the slots of their rows' spectra. What lanes exchange, they exchange within the warp.
// Filters are transformed, in fp64, by a warp of the block that needs them.
#pragma once
#include "long_conv/cuda/onchip/transform.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::onchip {

inline constexpr int N = small_points, images_of_warp = 32 / N;
inline constexpr int small_threads = 128, small_warps = small_threads / 32;

// [row][slot]; the stride keeps rows, and slots, of half a warp in different banks.
inline constexpr int line_stride = N + 1;
using SmallImage = Complex<float>[N * line_stride];
using SmallImages = SmallImage[images_of_warp];
// The same memory as rows of floats, read by lanes that are rows, sixteen bytes at a time.
inline constexpr int float_stride = N + 4;

// [odd][frequency][slot]
struct SmallSpectrum {
  Complex<float> values[2][N][N];
};

// By positions, 2N of either axis.
using SmallTaps = float[2 * N][2 * N + 1];

struct SmallFilter {
  SmallTaps taps;
  Complex<float> rows[2 * N * line_stride];
};

// Blocks on one multiprocessor differ by about as many as there are: what one warp does alone is not to fall to the
// same of the four schedulers for all of them.
__device__ __forceinline__ int lone_warp() { return int(blockIdx.x) / 128 % small_warps; }

// w_N^(n shift / 4), n < N.
template <int shift, Sense sense, typename Real>
__device__ __forceinline__ void thread_shift_line(Complex<Real> (&v)[N]) {
  [&]<int... n>(std::integer_sequence<int, n...>) {
    ((v[n] = turned<64 / N * n * shift*(sense == Sense::forward ? 1 : -1)>(v[n])), ...);
  }
  (std::make_integer_sequence<int, N>{});
}
// The same where a lane is told at run time whether to.
template <int shift, Sense sense, typename Real>
__device__ __forceinline__ void thread_shift_line_if(bool shifts, Complex<Real> (&v)[N]) {
  [&]<int... n>(std::integer_sequence<int, n...>) {
    auto const turn = [&]<int at>() {
      auto const turned_value = turned<64 / N * at * shift*(sense == Sense::forward ? 1 : -1)>(v[at]);
      v[at] = shifts ? turned_value : v[at];
    };
    (turn.template operator()<n>(), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

// ---- filters ----

// The sum of the taps at a position of both axes.
__device__ inline float tap_at(transformed::FilterRows const& p, std::int64_t from, int row, int column) {
  auto const &rows = p.axes[1], &columns = p.axes[2];
  float sum = 0;
  if (!is_tap(rows, row) || !is_tap(columns, column)) return sum;
  for (std::int64_t m = first_tap(rows, row); exists(rows, m); m = next_tap(rows, m))
    for (std::int64_t n = first_tap(columns, column); exists(columns, n); n = next_tap(columns, n))
      sum += faltung::cuda::thread_load<float>(p.from.data, p.dtype,
                                               from + m * p.from.strides.spatial[1] + n * p.from.strides.spatial[2]);
  return sum;
}

template <bool plain>
__device__ __forceinline__ void block_stage_taps(SmallTaps& to, transformed::FilterRows const& p, int unit) {
  std::int64_t const from = transformed::image_offset(p.chunk, p.from.strides, unit, 0);
  int const column = int(threadIdx.x) % (2 * N), first = int(threadIdx.x) / (2 * N);
  constexpr int rows_at_a_time = small_threads / (2 * N), count = 2 * N / rows_at_a_time;
  if constexpr (plain) {
    int const offset = offset_of<N>(column);
    bool const met = is_met(p.axes[2], offset);
    float const* const taps =
        static_cast<float const*>(p.from.data) + from + (offset + p.axes[2].centre) * p.from.strides.spatial[2];
    float value[count] = {};
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int const row = offset_of<N>(first + i * rows_at_a_time);
      if (met && is_met(p.axes[1], row)) value[i] = taps[(row + p.axes[1].centre) * p.from.strides.spatial[1]];
    }
#pragma unroll
    for (int i = 0; i < count; ++i) to[first + i * rows_at_a_time][column] = value[i];
  } else {
#pragma unroll 1
    for (int i = 0; i < count; ++i)
      to[first + i * rows_at_a_time][column] = tap_at(p, from, first + i * rows_at_a_time, column);
  }
}

// dk of a unit from its values by positions.
template <bool plain>
__device__ __forceinline__ void block_store_taps(SmallTaps const& from, transformed::FilterRows const& p, int unit) {
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  std::int64_t const to = transformed::image_offset(p.chunk, p.to.strides, unit, 0);
  if constexpr (plain) {
    auto const &rows = p.axes[1], &columns = p.axes[2];
    std::int64_t const row_stride = p.to.strides.spatial[1], stride = p.to.strides.spatial[2];
    float* const taps = static_cast<float*>(p.to.data) + to;
    int const column = int(threadIdx.x) % (2 * N), offset = offset_of<N>(column);
    float const scale = float(offset < 0 ? -p.scale : p.scale);
    if (is_met(columns, offset)) {
#pragma unroll 8
      for (int position = int(threadIdx.x) / (2 * N); position < 2 * N; position += small_threads / (2 * N)) {
        int const row = offset_of<N>(position);
        if (is_met(rows, row))
          taps[(row + rows.centre) * row_stride + (offset + columns.centre) * stride] = from[position][column] * scale;
      }
    }
    // Taps that meet no input.
    if (rows.head + rows.tail == rows.filter && columns.head + columns.tail == columns.filter) return;
#pragma unroll 1
    for (std::int64_t m = warp; m < rows.filter; m += small_warps)
#pragma unroll 1
      for (std::int64_t n = lane; n < columns.filter; n += 32)
        if (std::abs(m - rows.centre) >= rows.extent || std::abs(n - columns.centre) >= columns.extent)
          taps[m * row_stride + n * stride] = 0;
  } else {
#pragma unroll 1
    for (std::int64_t m = warp; m < p.axes[1].filter; m += small_warps) {
      auto const spots = transformed::spots_of(p.axes[1], m);
      auto const value = [&](int position) {
        float sum = 0;
        for (int i = 0; i < spots.count; ++i) sum += from[spots.at[i]][position];
        return sum;
      };
      transformed::store_taps<float>(p, to + m * p.to.strides.spatial[1], value, lane, 32);
    }
  }
}

// In fp64: the lane's row of 2N taps, as N slots.
__device__ __forceinline__ void thread_transform_taps(Complex<float> (&v)[N], float const (&taps)[2 * N + 1],
                                                      float scale) {
#pragma unroll
  for (int n = 0; n < N; ++n) v[n] = {taps[n] * scale, taps[n + N] * scale};
  thread_shift_line<row_shift, Sense::forward>(v);
  transformed::transform_16<Sense::forward>(v);
}

// Lanes are rows, then slots of even and of odd frequencies.
__device__ __forceinline__ void warp_transform_filter(SmallSpectrum& to, SmallFilter& filter, float scale) {
  constexpr int stride = line_stride;
  int const lane = int(threadIdx.x) % 32, slot = lane % N;
  bool const odd = lane >= N;
  Complex<float> v[N];
  thread_transform_taps(v, filter.taps[lane], scale);
#pragma unroll
  for (int f = 0; f < N; ++f) filter.rows[lane * stride + f] = v[f];
  __syncwarp();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    auto const first = filter.rows[n * stride + slot], second = filter.rows[(n + N) * stride + slot];
    v[n] = odd ? first - second : first + second;
  }
  thread_shift_line_if<odd_shift, Sense::forward>(odd, v);
  transformed::transform_16<Sense::forward>(v);
#pragma unroll
  for (int f = 0; f < N; ++f) to.values[odd][f][slot] = {float(v[f].re), float(v[f].im)};
}

// ---- images ----

// Rows of a warp's images on their way to the lanes that transform them.
template <bool plain>
struct SmallRows {
  float4 parts[N / 4];  // sixteen bytes here and there if plain; else of the lane's row

  static constexpr int parts_of_image = N * N / 128;
  // Of part i of a lane: its row and column in an image.
  static __device__ __forceinline__ int place(int i, int lane) {
    int const index = i % parts_of_image * 32 + lane;
    return index / (N / 4) * float_stride + index % (N / 4) * 4;
  }

  // Of a unit, from image `first` on.
  __device__ __forceinline__ void load(ConstView const& from, Grid const& grid, int unit, int first) {
    int const lane = int(threadIdx.x) % 32;
    auto const image = [&](int i) {
      return static_cast<float const*>(from.data) +
             transformed::image_offset(grid.chunk, from.strides, unit, first + i);
    };
    if constexpr (plain) {
#pragma unroll
      for (int i = 0; i < N / 4; ++i) {
        parts[i] = {};
        if (first + i / parts_of_image < grid.chunk.images)
          parts[i] = reinterpret_cast<float4 const*>(image(i / parts_of_image))[i % parts_of_image * 32 + lane];
      }
    } else {
      int const row = lane % N, which = lane / N;
      bool const inside = row < grid.rows && first + which < grid.chunk.images;
      float const* const line = image(inside ? which : 0) + (inside ? row : 0) * from.strides.spatial[1];
      auto const element = [&](int n) { return inside && n < grid.columns ? line[n * from.strides.spatial[2]] : 0.f; };
#pragma unroll
      for (int i = 0; i < N / 4; ++i)
        parts[i] = {element(4 * i), element(4 * i + 1), element(4 * i + 2), element(4 * i + 3)};
    }
  }

  // The transform of the lane's row, into `images`, which also serve on the way.
  __device__ __forceinline__ void transform(SmallImages& images) {
    int const lane = int(threadIdx.x) % 32, row = lane % N, which = lane / N;
    if constexpr (plain) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < N / 4; ++i)
        *reinterpret_cast<float4*>(reinterpret_cast<float*>(images[i / parts_of_image]) + place(i, lane)) = parts[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < N / 4; ++i)
        parts[i] = *reinterpret_cast<float4 const*>(reinterpret_cast<float const*>(images[which]) + row * float_stride +
                                                    4 * i);
    }
    __syncwarp();
    Complex<float> v[N];
#pragma unroll
    for (int i = 0; i < N / 4; ++i)
      v[4 * i] = {parts[i].x, 0.f}, v[4 * i + 1] = {parts[i].y, 0.f}, v[4 * i + 2] = {parts[i].z, 0.f},
            v[4 * i + 3] = {parts[i].w, 0.f};
    thread_shift_line<row_shift, Sense::forward>(v);
    transformed::transform_16<Sense::forward>(v);
#pragma unroll
    for (int f = 0; f < N; ++f) images[which][row * line_stride + f] = v[f];
    __syncwarp();
  }
};

// The lane's column of its image.
__device__ __forceinline__ Complex<float>* column_of_lane(SmallImages& images) {
  int const lane = int(threadIdx.x) % 32;
  return images[lane / N] + lane % N;
}

template <int shift>
__device__ __forceinline__ void thread_transform_column(Complex<float> (&v)[N], SmallImages& images) {
  auto const* const column = column_of_lane(images);
#pragma unroll
  for (int n = 0; n < N; ++n) v[n] = column[n * line_stride];
  thread_shift_line<shift, Sense::forward>(v);
  transformed::transform_16<Sense::forward>(v);
}

// Times a filter's slots, and back.
template <int shift>
__device__ __forceinline__ void thread_multiply_column(Complex<float> (&v)[N], SmallSpectrum const& spectrum,
                                                       bool conjugated) {
  int const slot = int(threadIdx.x) % N;
#pragma unroll
  for (int f = 0; f < N; ++f) {
    auto k = spectrum.values[shift / odd_shift][f][slot];
    k.im = conjugated ? -k.im : k.im;
    v[f] = v[f] * k;
  }
  transformed::transform_16<Sense::inverse>(v);
  thread_shift_line<shift, Sense::inverse>(v);
}

// Rows back, and out, with shortcut times `added`, where there is one.
template <bool plain>
__device__ __forceinline__ void warp_restore_rows(SmallImages& images, View const& to, ConstView const& added,
                                                  float shortcut, Grid const& grid, int unit, int first) {
  int const lane = int(threadIdx.x) % 32, row = lane % N, which = lane / N;
  __syncwarp();
  Complex<float> v[N];
#pragma unroll
  for (int f = 0; f < N; ++f) v[f] = images[which][row * line_stride + f];
  transformed::transform_16<Sense::inverse>(v);
  thread_shift_line<row_shift, Sense::inverse>(v);
  auto const image = [&](int i) {
    return static_cast<float*>(to.data) + transformed::image_offset(grid.chunk, to.strides, unit, first + i);
  };
  if constexpr (plain) {
    constexpr int parts_of_image = SmallRows<plain>::parts_of_image;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N / 4; ++i)
      *reinterpret_cast<float4*>(reinterpret_cast<float*>(images[which]) + row * float_stride + 4 * i) =
          float4{v[4 * i].re, v[4 * i + 1].re, v[4 * i + 2].re, v[4 * i + 3].re};
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N / 4; ++i)
      if (first + i / parts_of_image < grid.chunk.images)
        reinterpret_cast<float4*>(image(i / parts_of_image))[i % parts_of_image * 32 + lane] =
            *reinterpret_cast<float4 const*>(reinterpret_cast<float const*>(images[i / parts_of_image]) +
                                             SmallRows<plain>::place(i, lane));
  } else {
    if (row >= grid.rows || first + which >= grid.chunk.images) return;
    float* const line = image(which) + row * to.strides.spatial[1];
    float const* const other = added.data
                                   ? static_cast<float const*>(added.data) +
                                         transformed::image_offset(grid.chunk, added.strides, unit, first + which) +
                                         row * added.strides.spatial[1]
                                   : nullptr;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (n >= grid.columns) continue;
      line[n * to.strides.spatial[2]] = other ? v[n].re + shortcut * other[n * added.strides.spatial[2]] : v[n].re;
    }
  }
}

__device__ __forceinline__ float shortcut_of(ConstVector const& shortcut, Dtype dtype, Grid const& grid, int unit) {
  return shortcut.data ? faltung::cuda::thread_load<float>(shortcut.data, dtype,
                                                           transformed::channel_of(grid.chunk, unit) * shortcut.stride)
                       : 0.f;
}

}  // namespace faltung::long_conv::cuda::onchip
