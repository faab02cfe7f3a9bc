// dk of one channel per turn of a persistent block: G[f, d] = sum over images b and rows i of dY[f, b, i] conj X[f, b,
// i - d], with the MMA's K = 8 images x {re, im}; then back over the frequencies. 32 slots at a time. All images share
// one power of two, since they are added up.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"
#include "long_conv/cuda/toeplitz/filter_gradient.cuh"
#include "long_conv/cuda/toeplitz/store_gradient.cuh"

namespace faltung::long_conv::cuda::spectral {

// Sums carry this factor: 8 images x 64 rows of the largest spectra then stay below the largest half.
inline constexpr int gradient_headroom = -8;

template <int N>
__device__ __forceinline__ int gradient_word(int slot, int image, int row) {
  return slot * GradientPlan<N>::slot_stride + image * N + (row ^ (8 * (image & 3)));
}

// Folded rows of an image to the spectra of slots first_slot .. first_slot + 31.
template <int N>
__device__ __forceinline__ void warp_store_gradient_spectrum(std::uint32_t* spectrum, Rows<N> const& rows,
                                                             InputConstants<N> const& constants, int first_slot,
                                                             int image, int first_row) {
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll 1
  for (int tile = 0; tile < gradient_slots / 16; ++tile) {
    Tile re[4] = {}, im[4] = {};
    warp_transform_rows<N>(re, im, rows, constants, first_slot / 16 + tile);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int q = 0; q < 2; ++q)
        *reinterpret_cast<uint2*>(spectrum +
                                  gradient_word<N>(16 * tile + g + 8 * q, image, first_row + 8 * n + 2 * t)) =
            uint2{half_pair(re[n][2 * q], im[n][2 * q]), half_pair(re[n][2 * q + 1], im[n][2 * q + 1])};
  }
}

// The sums of one slot: rows of dy meet rows of x, the sums along the diagonals are those by row lags.
template <int N>
__device__ __forceinline__ void warp_sum_slot(std::uint32_t* sums, std::uint32_t const* x_spectrum,
                                              std::uint32_t const* dy_spectrum, int slot) {
  constexpr int tiles = N / 16, diagonals = toeplitz::diagonals<tiles>;
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  std::uint32_t dy[tiles][4], x[2 * tiles][2];
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      dy[m][e] = dy_spectrum[gradient_word<N>(slot, t + 4 * (e / 2), 16 * m + g + 8 * (e % 2))];
#pragma unroll
  for (int n = 0; n < 2 * tiles; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) x[n][e] = x_spectrum[gradient_word<N>(slot, t + 4 * e, 8 * n + g)];
  float lag_sums[2][tiles];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    if (part == 1)  // (re, im) of x to (-im, re): what is left is the imaginary part
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) x[n][e] = swap_halves(x[n][e]) ^ 0x8000u;
    float blocks[diagonals][4] = {};
#pragma unroll
    for (int m = 0; m < tiles; ++m)
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n)
        warp_mma<__half>(blocks[2 * m - n + 2 * tiles - 1], dy[m][0], dy[m][1], dy[m][2], dy[m][3], x[n][0], x[n][1]);
    toeplitz::warp_sum_diagonals<tiles>(blocks, lag_sums[part]);
  }
  int const residue = (g - 2 * t) & 7, beta = (t & 1) * 2 * tiles + (t / 2) * tiles;  // plus 2 tiles
  constexpr float headroom = 1.f / (1 << -gradient_headroom);
#pragma unroll
  for (int i = 0; i < tiles; ++i)
    sums[8 * (beta + i) + residue] = half_pair(lag_sums[0][i] * headroom, lag_sums[1][i] * headroom);
}

// 16 row lags x N / 2 column lags per warp, and their mirror images.
template <int N>
__device__ __forceinline__ void warp_invert_lags(float* result, std::uint32_t const* sums,
                                                 LagConstants<N> const& constants, int exponent) {
  constexpr int tiles = N / 16, stride = GradientPlan<N>::sum_stride;
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  int const first_row = warp / 2 * 16, half = warp % 2;
  Tile cosines[tiles] = {}, sines[tiles] = {};
#pragma unroll
  for (int step = 0; step < N / 16; ++step) {
    std::uint32_t re[4], im[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      std::uint32_t const* const from = sums + (16 * step + 2 * t + 8 * (e / 2)) * stride + first_row + g + 8 * (e % 2);
      re[e] = low_halves(from[0], from[stride]);
      im[e] = high_halves(from[0], from[stride]);
    }
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      uint4 const c = constants[0][step][half * (tiles / 2) + n / 2][lane],
                  s = constants[1][step][half * (tiles / 2) + n / 2][lane];
      warp_mma<__half>(cosines[n], re[0], re[1], re[2], re[3], c.x, c.y);
      warp_mma<__half>(cosines[n + 1], re[0], re[1], re[2], re[3], c.z, c.w);
      warp_mma<__half>(sines[n], im[0], im[1], im[2], im[3], s.x, s.y);
      warp_mma<__half>(sines[n + 1], im[0], im[1], im[2], im[3], s.z, s.w);
    }
  }
#pragma unroll
  for (int n = 0; n < tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int const lag = half * (N / 2) + 8 * n + 2 * t + e % 2;
      float* const to = result + (first_row + g + 8 * (e / 2)) * stride + N;
      to[lag] = scaled(cosines[n][e] + sines[n][e], exponent);
      to[-lag] = scaled(cosines[n][e] - sines[n][e], exponent);
    }
}

template <int N, bool plain, typename Element>
__global__ __launch_bounds__(Plan<N>::threads, GradientPlan<N>::blocks) void gradient_kernel(
    __grid_constant__ GradientKernelArgs<Element> const p) {
  using P = Plan<N>;
  grid_release_successor();
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<GradientShared<N>*>(dynamic_shared);
  Shape const& shape = p.shape;
  int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int const image = warp / P::warps_per_image, first_row = warp % P::warps_per_image * 32;
  bool const present = image < shape.batch;

  auto const cosines = block_make_cosines<N>(shared.sums);
  block_make_input_constants<N>(shared.input_constants, cosines);
  block_make_lag_constants<N>(shared.lag_constants, cosines);
  grid_wait_for_predecessor();
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x) {
    int exponent[2];
#pragma unroll 1
    for (int first_slot = 0; first_slot < N; first_slot += gradient_slots) {
      Rows<N> rows[2];  // of x, of dy
      warp_load_rows<N, plain>(rows[0], p.x, shape, image, c, first_row, present);
      warp_load_rows<N, plain>(rows[1], p.dy, shape, image, c, first_row, present);
      if (first_slot == 0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          std::uint32_t const most = warp_magnitude<N>(rows[i]);
          if (lane == 0) shared.maxima[i][warp] = most;
        }
      }
      __syncthreads();  // also: the slots before, or the result of the channel before, have been read
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        exponent[i] = normalising_exponent(warp_max(lane < P::warps ? shared.maxima[i][lane] : 0));
        thread_fold<N>(rows[i], power_of_two(exponent[i]));
        warp_store_gradient_spectrum<N>(shared.spectra[i], rows[i], shared.input_constants, first_slot, image,
                                        first_row);
      }
      __syncthreads();
#pragma unroll 1
      for (int slot = warp; slot < gradient_slots; slot += P::warps)
        warp_sum_slot<N>(shared.sums + (first_slot + slot) * GradientPlan<N>::sum_stride, shared.spectra[0],
                         shared.spectra[1], slot);
    }
    __syncthreads();
    if (c + gridDim.x < shape.channels) {
      thread_prefetch_images(p.x, shape, c + gridDim.x, 0);
      thread_prefetch_images(p.dy, shape, c + gridDim.x, 0);
    }
    constexpr int log2_N = N == 64 ? 6 : 5;
    warp_invert_lags<N>(shared.result, shared.sums, shared.lag_constants,
                        -exponent[0] - exponent[1] - gradient_headroom - log2_N);
    __syncthreads();
    toeplitz::block_store_filter_gradient(p.dk.data + c * p.dk.channel, p.dk,
                                          shared.result + (shape.rows.low + N) * GradientPlan<N>::sum_stride + N,
                                          GradientPlan<N>::sum_stride, shape);
  }
}

}  // namespace faltung::long_conv::cuda::spectral
