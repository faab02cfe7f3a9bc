// dk, and dx beside it. A block of 16 warps takes a filter with all of its images, one after the other: rows of x and
// dy, then a slot of both for each warp's lanes, where dy conj(x) is summed in registers and dy conj(k) goes back, then
// rows of dx. The sum goes back in fp64: where a mean or a constant gradient has all in a few frequencies, the errors
// of three fp32 transforms would exceed the bound.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/onchip/precise.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::onchip {
namespace {

constexpr int threads = 512;

template <bool plain>
struct Shared {
  union {
    struct {
      Cells x, dy;
      Cells exchange;  // of columns, so that x and dy can be read twice
    };
    PreciseGrid gradient;
  };
  Twiddles<float> twiddles;
  Twiddles<double> precise_twiddles;
};
template <>
struct Shared<true> : Shared<false> {
  StagedImage next_x, next_dy;
};

template <int shift>
__device__ __forceinline__ void warp_transform_slots(Complex<float> (&v)[8], ColumnLine const& line,
                                                     ColumnLine const& exchange, Complex<float> const (&twiddles)[8]) {
  line.load(v);
  thread_shift<shift, Sense::forward>(v);
  transform_8<Sense::forward>(v);
  thread_multiply<Sense::forward>(v, twiddles);
  __syncwarp();  // what was exchanged before has been read
  exchange_forward(exchange, v);
  transform_8<Sense::forward>(v);
}

template <int shift, typename Line, typename Real>
__device__ __forceinline__ void warp_restore_slots(Complex<Real> (&v)[8], Line const& exchange,
                                                   Complex<Real> const (&twiddles)[8]) {
  transform_8<Sense::inverse>(v);
  exchange_inverse(exchange, v);
  thread_multiply<Sense::inverse>(v, twiddles);
  transform_8<Sense::inverse>(v);
  thread_shift<shift, Sense::inverse>(v);
}

// The even or the odd slots of a column. `dx`: what they add to its rows.
template <int shift>
__device__ __forceinline__ void warp_add_slots(Complex<float> (&sum)[8], Complex<float> (&dx)[8], Shared<false>& shared,
                                               Cell const* spectrum, int turn, int lane) {
  ColumnPlace const at(turn, lane);
  ColumnLine const exchange(shared.exchange, at);
  Complex<float> twiddles[8], x[8];
  shared.twiddles.load<shift>(twiddles, at.place);
  warp_transform_slots<shift>(x, ColumnLine(shared.x, at), exchange, twiddles);
  warp_transform_slots<shift>(dx, ColumnLine(shared.dy, at), exchange, twiddles);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] = sum[i] + dx[i] * conjugate(x[i]);
  if (!spectrum) return;
  Complex<float> k[8];
  thread_load_spectrum(k, spectrum, shift / odd_shift, turn, lane);
#pragma unroll
  for (int i = 0; i < 8; ++i) dx[i] = dx[i] * conjugate(k[i]);
  warp_restore_slots<shift>(dx, exchange, twiddles);
}

// A lane's sums of images before, in memory of its own.
__device__ __forceinline__ void thread_add_sums(Complex<float> (&sum)[2][8], Cell* sums) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    Cell const before = sums[i * threads + threadIdx.x];
    sum[i / 4][i % 4 * 2] = sum[i / 4][i % 4 * 2] + before.half[0];
    sum[i / 4][i % 4 * 2 + 1] = sum[i / 4][i % 4 * 2 + 1] + before.half[1];
  }
}
__device__ __forceinline__ void thread_keep_sums(Complex<float> (&sum)[2][8], Cell* sums) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sums[i * threads + threadIdx.x] = {sum[i / 4][i % 4 * 2], sum[i / 4][i % 4 * 2 + 1]};
    sum[i / 4][i % 4 * 2] = sum[i / 4][i % 4 * 2 + 1] = {};
  }
}

// Rows of taps, by warps; of a row's positions n and n + 64 lie in one place.
__device__ __forceinline__ Complex<double> const* row_of_gradient(Shared<false>& shared, int position) {
  return PreciseRow(shared.gradient, position, 0).cells;
}
__device__ __forceinline__ int element_of_row(int n) { return n / 8 * Cells::group + n % 8 * Cells::slot; }

__device__ __forceinline__ void block_store_plain_taps(Shared<false>& shared, transformed::FilterRows const& p,
                                                       int unit) {
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  auto const &rows = p.axes[1], &columns = p.axes[2];
  float const scale = float(p.scale);
  std::int64_t const stride = p.to.strides.spatial[2];
  float* const to = static_cast<float*>(p.to.data) + transformed::image_offset(p.chunk, p.to.strides, unit, 0) +
                    (lane + columns.centre) * stride;
#pragma unroll 1
  for (int position = warp; position < positions; position += threads / 32) {
    int const offset = offset_of(position);
    if (!is_met(rows, offset)) continue;
    auto const* const from = row_of_gradient(shared, position) + element_of_row(lane);
    float* const row = to + (offset + rows.centre) * p.to.strides.spatial[1];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      auto const value = from[i * element_of_row(32)];
      if (is_met(columns, lane + 32 * i)) row[32 * i * stride] = float(value.re) * scale;
      if (is_met(columns, lane + 32 * i - points)) row[(32 * i - points) * stride] = -float(value.im) * scale;
    }
  }
  // Taps that meet no input.
  if (rows.head + rows.tail == rows.filter && columns.head + columns.tail == columns.filter) return;
#pragma unroll 1
  for (std::int64_t m = warp; m < rows.filter; m += threads / 32)
#pragma unroll 1
    for (std::int64_t n = lane; n < columns.filter; n += 32)
      if (std::int64_t const row = m - rows.centre, column = n - columns.centre;
          std::abs(row) >= rows.extent || std::abs(column) >= columns.extent)
        to[m * p.to.strides.spatial[1] + (column - lane) * stride] = 0;
}

__device__ __noinline__ void block_store_taps(Shared<false>& shared, transformed::FilterRows const& p, int unit) {
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  std::int64_t const to = transformed::image_offset(p.chunk, p.to.strides, unit, 0);
#pragma unroll 1
  for (std::int64_t m = warp; m < p.axes[1].filter; m += threads / 32) {
    auto const spots = transformed::spots_of(p.axes[1], m);
    auto const value = [&](int position) {
      float sum = 0;
      for (int i = 0; i < spots.count; ++i) {
        auto const both = row_of_gradient(shared, spots.at[i])[element_of_row(position % points)];
        sum += float(position < points ? both.re : both.im);
      }
      return sum;
    };
    transformed::store_taps<float>(p, to + m * p.to.strides.spatial[1], value, lane, 32);
  }
}

// From the sums of all slots to dk. Begins and ends with a barrier.
template <bool plain>
__device__ __forceinline__ void block_store_filter(Complex<float> (&sum)[2][8], Shared<false>& shared,
                                                   transformed::FilterRows const& p, int unit) {
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, place = lane % 8;
  __syncthreads();  // dx has left
  {
    ColumnPlace const at(warp, lane);
    PreciseColumn const first(shared.gradient, at, 0), second(shared.gradient, at, 1);
    Complex<double> even[8], odd[8], twiddles[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      even[i] = converted<double>(sum[0][i]);
      odd[i] = converted<double>(sum[1][i]);
    }
    shared.precise_twiddles.load<even_shift>(twiddles, place);
    warp_restore_slots<even_shift>(even, first, twiddles);
    shared.precise_twiddles.load<odd_shift>(twiddles, place);
    warp_restore_slots<odd_shift>(odd, second, twiddles);
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      auto const low = even[q] + odd[q];
      odd[q] = even[q] - odd[q];
      even[q] = low;
    }
    first.store(even);
    second.store(odd);
  }
  __syncthreads();
  {
    Complex<double> twiddles[8];
    shared.precise_twiddles.load<row_shift>(twiddles, place);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      PreciseRow const line(shared.gradient, half * points + row_of_lane(warp, lane), place);
      Complex<double> v[8];
      restore_row(line, v, twiddles);
      thread_shift<row_shift, Sense::inverse>(v);
      // Positions n and n + 64 of the row.
#pragma unroll
      for (int q = 0; q < 8; ++q) line.at(q, place) = {v[q].re, -v[q].im};
    }
  }
  __syncthreads();
  if constexpr (plain)
    block_store_plain_taps(shared, p, unit);
  else
    block_store_taps(shared, p, unit);
  __syncthreads();
}

// `plain`: whole rows side by side in memory, no shortcut; plain_taps: is_plain(FilterRows).
template <bool plain, bool plain_taps>
__global__ __launch_bounds__(threads) void gradient_kernel(__grid_constant__ Gradient const p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared<plain>*>(dynamic_shared);
  faltung::cuda::grid_release_successor();
  shared.twiddles.block_make();
  shared.precise_twiddles.block_make();
  __syncthreads();
  faltung::cuda::grid_wait_for_predecessor();
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, place = lane % 8;
  int const row = row_of_lane(warp, lane);
  auto const& chunk = p.grid.chunk;
  auto* const sums = static_cast<Cell*>(p.sums) + std::int64_t(blockIdx.x) * (spectrum_size / 2);
  auto const image = [&](ConstView const& from, int unit, int b) {
    return static_cast<float const*>(from.data) + transformed::image_offset(chunk, from.strides, unit, b);
  };
  auto const stage = [&](int unit, int b) {
    if constexpr (plain) {
      warp_stage_rows<threads / 32>(shared.next_x, image(p.x, unit, b));
      warp_stage_rows<threads / 32>(shared.next_dy, image(p.dy, unit, b));
    }
  };
  stage(int(blockIdx.x), 0);
#pragma unroll 1
  for (int unit = int(blockIdx.x); unit < chunk.units; unit += int(gridDim.x)) {
    auto const* const spectrum =
        p.dx.data ? static_cast<Cell const*>(p.spectra) + std::int64_t(unit) * (spectrum_size / 2) : nullptr;
    float const shortcut = plain || !p.shortcut.data ? 0.f
                                                     : faltung::cuda::thread_load<float>(
                                                           p.shortcut.data, p.shortcut_dtype,
                                                           transformed::channel_of(chunk, unit) * p.shortcut.stride);
    auto const load = [&](float(&to)[8], ConstView const& from, int b) {
      thread_load_row(to, image(from, unit, b), from.strides, p.grid, row, place);
    };
    Complex<float> sum[2][8] = {};
    // A turn: rows of dx of one image, rows of x and dy of the next, columns of those.
#pragma unroll 1
    for (int b = -1;; ++b) {
      bool const last = b + 1 == chunk.images;
      {
        Complex<float> twiddles[8], v[8];
        shared.twiddles.template load<row_shift>(twiddles, place);
        if (spectrum && b >= 0) {
          restore_row(RowLine(shared.dy, row, place), v, twiddles);
          float result[8];
          thread_real_row(result, v);
          thread_store_row<plain>(
              result, static_cast<float*>(p.dx.data) + transformed::image_offset(chunk, p.dx.strides, unit, b),
              p.dx.strides, p.shortcut.data ? image(p.dy, unit, b) : nullptr, p.dy.strides, shortcut, p.grid, row,
              place);
        }
        if (b >= images_per_sum && (last || b % images_per_sum == images_per_sum - 1)) thread_add_sums(sum, sums);
        if (last) break;
        if (b % images_per_sum == images_per_sum - 1) thread_keep_sums(sum, sums);
        float x[8], dy[8];
        if constexpr (plain) {
          faltung::cuda::thread_wait_for_copies();
          __syncwarp();
          thread_load_row(x, shared.next_x, row, place);
          thread_load_row(dy, shared.next_dy, row, place);
          __syncwarp();
          if (b + 2 < chunk.images)
            stage(unit, b + 2);
          else if (unit + int(gridDim.x) < chunk.units)
            stage(unit + int(gridDim.x), 0);
        } else {
          load(x, p.x, b + 1);
          load(dy, p.dy, b + 1);
        }
        thread_shift_row(v, x);
        transform_row(RowLine(shared.x, row, place), v, twiddles);
        thread_shift_row(v, dy);
        transform_row(RowLine(shared.dy, row, place), v, twiddles);
      }
      __syncthreads();
      {
        Complex<float> even[8], odd[8];
        warp_add_slots<even_shift>(sum[0], even, shared, spectrum, warp, lane);
        warp_add_slots<odd_shift>(sum[1], odd, shared, spectrum, warp, lane);
        if (spectrum) {
#pragma unroll
          for (int q = 0; q < 8; ++q) even[q] = even[q] + odd[q];
          ColumnLine(shared.dy, ColumnPlace(warp, lane)).store(even);
        }
      }
      __syncthreads();
    }
    block_store_filter<plain_taps>(sum, shared, p.filter, unit);
  }
}

}  // namespace

std::size_t gradients_shared_bytes() { return sizeof(Shared<true>); }

void gradients(Gradient const& p, cudaStream_t stream) {
  bool const plain =
      !p.shortcut.data && is_plain(p.grid, p.x) && is_plain(p.grid, p.dy) && (!p.dx.data || is_plain(p.grid, p.dx));
  int const blocks = std::min({p.grid.chunk.units, faltung::cuda::multiprocessors(), most_gradient_blocks});
  visit_int<0, 1>(plain, "plain", [&]<int plain_images> {
    visit_int<0, 1>(is_plain(p.filter), "plain", [&]<int plain_taps> {
      faltung::cuda::launch<gradient_kernel<plain_images, plain_taps>>("cuda.onchip gradients",
                                                                       {.grid = dim3(unsigned(blocks)),
                                                                        .threads = threads,
                                                                        .shared_bytes = sizeof(Shared<plain_images>),
                                                                        .stream = stream,
                                                                        .starts_early = true},
                                                                       p);
    });
  });
}

}  // namespace faltung::long_conv::cuda::onchip
