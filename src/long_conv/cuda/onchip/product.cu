// y, and dx without dk: an image is transformed along rows and columns, multiplied by its filter's spectrum and
// transformed back without leaving shared memory. Blocks of four warps take images in turn: a warp has rows, then
// slots, then the same rows. Several blocks on a multiprocessor fill each other's waits.
#include <algorithm>

#include "core/dispatch.hpp"
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/onchip/transform.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::onchip {
namespace {

constexpr int threads = 128, warps = threads / 32, blocks_per_multiprocessor = 4;

struct Shared {
  Cells image;
  Twiddles<float> twiddles;
};

// The even or the odd slots of a column: v after the first pass forward, then before the last pass back.
template <int shift>
__device__ __forceinline__ void warp_multiply_slots(Complex<float> (&v)[8], ColumnLine const& line,
                                                    Complex<float> const (&twiddles)[8], Cell const* spectrum,
                                                    bool conjugated, int turn, int lane) {
  Complex<float> k[8];
  thread_load_spectrum(k, spectrum, shift / odd_shift, turn, lane);
  exchange_forward(line, v);
  transform_8<Sense::forward>(v);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    k[i].im = conjugated ? -k[i].im : k[i].im;
    v[i] = v[i] * k[i];
  }
  transform_8<Sense::inverse>(v);
  exchange_inverse(line, v);
  thread_multiply<Sense::inverse>(v, twiddles);
}

// A column: transformed, multiplied, transformed back. Even and odd slots part before the first pass.
__device__ __forceinline__ void warp_multiply_column(Cells& image, Complex<float> const (&even_twiddles)[8],
                                                     Complex<float> const (&odd_twiddles)[8], Cell const* spectrum,
                                                     bool conjugated, int turn, int lane) {
  ColumnLine const line(image, ColumnPlace(turn, lane));
  Complex<float> even[8], odd[8];
  line.load(even);
#pragma unroll
  for (int q = 0; q < 8; ++q) odd[q] = even[q];
  transform_8<Sense::forward>(even);
  thread_multiply<Sense::forward>(even, even_twiddles);
  thread_shift<odd_shift, Sense::forward>(odd);
  transform_8<Sense::forward>(odd);
  thread_multiply<Sense::forward>(odd, odd_twiddles);
  warp_multiply_slots<even_shift>(even, line, even_twiddles, spectrum, conjugated, turn, lane);
  transform_8<Sense::inverse>(even);
  warp_multiply_slots<odd_shift>(odd, line, odd_twiddles, spectrum, conjugated, turn, lane);
  transform_8<Sense::inverse>(odd);
  thread_shift<odd_shift, Sense::inverse>(odd);
#pragma unroll
  for (int q = 0; q < 8; ++q) even[q] = even[q] + odd[q];
  line.store(even);
}

// `plain`: whole rows side by side in memory, no shortcut.
template <bool plain>
__global__ __launch_bounds__(threads,
                             blocks_per_multiprocessor) void product_kernel(__grid_constant__ Product const p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
  auto& image = shared.image;
  faltung::cuda::grid_release_successor();
  shared.twiddles.block_make();
  __syncthreads();
  faltung::cuda::grid_wait_for_predecessor();
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, place = lane % 8;
  auto const& chunk = p.grid.chunk;
  std::uint32_t const items = std::uint32_t(chunk.units) * chunk.images;
  auto const source = [&](std::uint32_t item) {
    int const unit = int(chunk.by_images.quotient(item));
    return static_cast<float const*>(p.from.data) +
           transformed::image_offset(chunk, p.from.strides, unit, int(chunk.by_images.remainder(item, unit)));
  };
#pragma unroll 1
  for (std::uint32_t item = blockIdx.x; item < items; item += gridDim.x) {
    int const unit = int(chunk.by_images.quotient(item)), b = int(chunk.by_images.remainder(item, unit));
    {
      Complex<float> twiddles[8];
      shared.twiddles.load<row_shift>(twiddles, place);
#pragma unroll 1
      for (int turn = warp; turn < 16; turn += 2 * warps) {
        float x[2][8];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          int const row = row_of_lane(turn + j * warps, lane);
          if constexpr (plain)
            thread_load_plain_row(x[j], source(item), row, place);
          else
            thread_load_row(x[j], source(item), p.from.strides, p.grid, row, place);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          Complex<float> v[8];
          thread_shift_row(v, x[j]);
          transform_row(RowLine(image, row_of_lane(turn + j * warps, lane), place), v, twiddles);
        }
      }
    }
    __syncthreads();
    {
      Complex<float> even_twiddles[8], odd_twiddles[8];
      shared.twiddles.load<even_shift>(even_twiddles, place);
      shared.twiddles.load<odd_shift>(odd_twiddles, place);
      auto const* const spectrum = static_cast<Cell const*>(p.spectra) + std::int64_t(unit) * (spectrum_size / 2);
#pragma unroll 1
      for (int turn = warp; turn < 16; turn += warps)
        warp_multiply_column(image, even_twiddles, odd_twiddles, spectrum, p.conjugate, turn, lane);
    }
    __syncthreads();
    {
      Complex<float> twiddles[8];
      shared.twiddles.load<row_shift>(twiddles, place);
      auto* const to = static_cast<float*>(p.to.data) + transformed::image_offset(chunk, p.to.strides, unit, b);
      float const shortcut = plain || !p.shortcut.data ? 0.f
                                                       : faltung::cuda::thread_load<float>(
                                                             p.shortcut.data, p.shortcut_dtype,
                                                             transformed::channel_of(chunk, unit) * p.shortcut.stride);
#pragma unroll 1
      for (int turn = warp; turn < 16; turn += warps) {
        int const row = row_of_lane(turn, lane);
        Complex<float> v[8];
        restore_row(RowLine(image, row, place), v, twiddles);
        float y[8];
        thread_real_row(y, v);
        thread_store_row<plain>(y, to, p.to.strides, p.shortcut.data ? source(item) : nullptr, p.from.strides, shortcut,
                                p.grid, row, place);
      }
    }
  }
}

}  // namespace

void multiply(Product const& p, cudaStream_t stream) {
  bool const plain = !p.shortcut.data && is_plain(p.grid, p.from) && is_plain(p.grid, p.to);
  std::int64_t const items = std::int64_t(p.grid.chunk.units) * p.grid.chunk.images;
  std::int64_t const blocks = std::int64_t(faltung::cuda::multiprocessors()) * blocks_per_multiprocessor;
  visit_int<0, 1>(plain, "plain", [&]<int plain_images> {
    faltung::cuda::launch<product_kernel<plain_images>>("cuda.onchip product",
                                                        {.grid = dim3(unsigned(std::min(items, blocks))),
                                                         .threads = threads,
                                                         .shared_bytes = sizeof(Shared),
                                                         .stream = stream,
                                                         .starts_early = true},
                                                        p);
  });
}

}  // namespace faltung::long_conv::cuda::onchip
