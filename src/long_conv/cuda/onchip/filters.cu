// Spectra of filters in fp64, rounded once: their error counts in every image, and in full where a smooth filter has
// its energy in a few frequencies. A block has a multiprocessor to itself; the next filter's taps are under way while
// one is in work.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/onchip/precise.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::onchip {
namespace {

constexpr int threads = 512;

// Taps of a warp's four rows by positions, on their way to the lanes that transform them.
struct StagedTaps {
  static constexpr int stride = positions + 8;  // rows of four groups of lanes in different banks
  float values[4][stride];
};

struct Shared {
  PreciseGrid grid;
  StagedTaps staged[threads / 32];
  Twiddles<double> twiddles;
};

// Of a warp's turn: rows of its four groups of lanes, `half` of the grid.
struct PlainTaps {
  float values[4][4];

  __device__ __forceinline__ void load(transformed::FilterRows const& p, int unit, int half) {
    int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    auto const &rows = p.axes[1], &columns = p.axes[2];
    std::int64_t const stride = p.from.strides.spatial[2];
    float const* const taps = static_cast<float const*>(p.from.data) +
                              transformed::image_offset(p.chunk, p.from.strides, unit, 0) +
                              (lane + columns.centre) * stride;
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      int const row = offset_of(half * points + row_of_lane(warp, 8 * group));
      bool const met = is_met(rows, row);
      float const* const line = taps + (row + rows.centre) * p.from.strides.spatial[1];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int const offset = 32 * i < points ? 32 * i : 32 * i - positions;
        values[group][i] = met && is_met(columns, lane + offset) ? line[offset * stride] : 0.f;
      }
    }
  }
  // Positions n and n + 64, whose sign changes twice: as they wrap around, and in the complex number.
  __device__ __forceinline__ void widen(Complex<double> (&v)[8], StagedTaps& staged, double scale) const {
    int const lane = int(threadIdx.x) % 32;
    __syncwarp();
#pragma unroll
    for (int group = 0; group < 4; ++group)
#pragma unroll
      for (int i = 0; i < 4; ++i) staged.values[group][lane + 32 * i] = values[group][i];
    __syncwarp();
    float const* const line = staged.values[lane / 8] + lane % 8;
#pragma unroll
    for (int q = 0; q < 8; ++q) v[q] = {line[8 * q] * scale, line[8 * q + points] * scale};
  }
};

__device__ __forceinline__ void store_spectrum(Complex<double> const (&v)[8], float4* spectrum, int odd, int turn,
                                               int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    spectrum[spectrum_place(odd, turn, i, lane)] =
        float4{float(v[2 * i].re), float(v[2 * i].im), float(v[2 * i + 1].re), float(v[2 * i + 1].im)};
}

template <int shift>
__device__ __forceinline__ void finish_column(Complex<double> (&v)[8], PreciseColumn const& line,
                                              Twiddles<double> const& all_twiddles) {
  thread_shift<shift, Sense::forward>(v);
  transform_8<Sense::forward>(v);
  Complex<double> twiddles[8];
  all_twiddles.load<shift>(twiddles, int(threadIdx.x) % 8);
  thread_multiply<Sense::forward>(v, twiddles);
  exchange_forward(line, v);
  transform_8<Sense::forward>(v);
}

// plain: is_plain(FilterRows).
template <bool plain>
__global__ __launch_bounds__(threads) void filters_kernel(__grid_constant__ Filters const p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
  faltung::cuda::grid_release_successor();
  shared.twiddles.block_make();
  faltung::cuda::grid_wait_for_predecessor();
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, place = lane % 8;
  int const units = p.rows.chunk.units;
  PlainTaps taps[2];
  if constexpr (plain)
#pragma unroll
    for (int half = 0; half < 2; ++half) taps[half].load(p.rows, int(blockIdx.x), half);
#pragma unroll 1
  for (int unit = int(blockIdx.x); unit < units; unit += int(gridDim.x)) {
    __syncthreads();  // the filter before has been read
    {
      Complex<double> twiddles[8];
      shared.twiddles.load<row_shift>(twiddles, place);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int const position = half * points + row_of_lane(warp, lane);
        Complex<double> v[8] = {};
        if constexpr (plain)
          taps[half].widen(v, shared.staged[warp], p.rows.scale);
        else if (is_tap(p.rows.axes[1], position))
          transformed::load_taps(v, p.rows, p.rows.axes[2],
                                 transformed::image_offset(p.rows.chunk, p.rows.from.strides, unit, 0), 0, position,
                                 place, 8, points);
        thread_shift<row_shift, Sense::forward>(v);
        transform_row(PreciseRow(shared.grid, position, place), v, twiddles);
      }
    }
    if constexpr (plain)
      if (unit + int(gridDim.x) < units)
#pragma unroll
        for (int half = 0; half < 2; ++half) taps[half].load(p.rows, unit + int(gridDim.x), half);
    __syncthreads();
    // Rows n and n + 64 make the even frequencies by their sum, the odd ones by their difference.
    ColumnPlace const at(warp, lane);
    PreciseColumn const first(shared.grid, at, 0), second(shared.grid, at, 1);
    Complex<double> even[8], odd[8];
    first.load(even);
    second.load(odd);
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      auto const sum = even[q] + odd[q];
      odd[q] = even[q] - odd[q];
      even[q] = sum;
    }
    auto* const to = static_cast<float4*>(p.spectra) + std::int64_t(unit) * (spectrum_size / 2);
    finish_column<even_shift>(even, first, shared.twiddles);
    store_spectrum(even, to, 0, warp, lane);
    finish_column<odd_shift>(odd, second, shared.twiddles);
    store_spectrum(odd, to, 1, warp, lane);
  }
}

}  // namespace

std::size_t filters_shared_bytes() { return sizeof(Shared); }

void transform_filters(Filters const& p, cudaStream_t stream) {
  visit_int<0, 1>(is_plain(p.rows), "plain", [&]<int plain> {
    faltung::cuda::launch<filters_kernel<plain>>(
        "cuda.onchip filters",
        {.grid = dim3(unsigned(std::min(p.rows.chunk.units, faltung::cuda::multiprocessors()))),
         .threads = threads,
         .shared_bytes = sizeof(Shared),
         .stream = stream,
         .starts_early = true},
        p);
  });
}

}  // namespace faltung::long_conv::cuda::onchip
