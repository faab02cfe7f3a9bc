// Along the rows: per slot a complex Toeplitz product, then back to the grid.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"

namespace faltung::long_conv::cuda::spectral {

// Spectrum of the images before the product: per slot and 16 rows one A fragment of 16 rows (re of 8 images, then im) x
// 16 grid rows.
template <int N>
__device__ __forceinline__ void warp_store_spectrum(std::uint32_t* spectrum, Tile const (&re)[4], Tile const (&im)[4],
                                                    int tile, int image, int first_row) {
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      int const slot = 16 * tile + g + 8 * q, block = first_row / 8 + n;
      *reinterpret_cast<uint2*>(spectrum + slot * Plan<N>::slot_stride + block / 2 * 128 +
                                ((image ^ (slot & 7)) * 4 + t) * 4 + block % 2 * 2) =
          uint2{half_pair(re[n][2 * q], re[n][2 * q + 1]), half_pair(im[n][2 * q], im[n][2 * q + 1])};
    }
}

// Two slots at a time, in place; afterwards a word holds both slots of a pair: [pair][re, im][image][row].
template <int N>
__device__ __forceinline__ int product_word(int pair, int image, int row) {
  return 2 * pair * Plan<N>::slot_stride + image * N + (row ^ (8 * ((image + pair) & 3)));
}

template <int N>
__device__ __forceinline__ void warp_multiply_slots(std::uint32_t* spectrum, std::uint32_t const* filter_spectrum,
                                                    int pair) {
  using P = Plan<N>;
  constexpr int tiles = N / 16, words = 4 * tiles - 1;
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  std::uint32_t kept[P::row_tiles][2];
#pragma unroll
  for (int second = 0; second < 2; ++second) {
    int const slot = 2 * pair + second;
    uint4 x[tiles];
#pragma unroll
    for (int in = 0; in < tiles; ++in)
      x[in] =
          *reinterpret_cast<uint4 const*>(spectrum + slot * P::slot_stride + in * 128 + ((g ^ (slot & 7)) * 4 + t) * 4);
    // Words of row lags 8 z + g - 2t - (8 (2 tiles - 1)) and the one before.
    std::uint32_t const* const lags = filter_spectrum + slot * P::filter_stride + N - 1 + g - 2 * t;
    std::uint32_t re[words], im[words];
#pragma unroll
    for (int z = 0; z < words; ++z) {
      std::uint32_t const first = lags[8 * (z - (2 * tiles - 1))], before = lags[8 * (z - (2 * tiles - 1)) - 1];
      re[z] = low_halves(first, before);
      im[z] = high_halves(first, before);
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < P::row_tiles; ++n) {
      Tile by_re = {}, by_im = {};
#pragma unroll
      for (int in = 0; in < tiles; ++in) {
        int const z = n - 2 * in + 2 * tiles - 1;
        warp_mma<__half>(by_re, x[in].x, x[in].y, x[in].z, x[in].w, re[z], re[z - 1]);
        warp_mma<__half>(by_im, x[in].x, x[in].y, x[in].z, x[in].w, im[z], im[z - 1]);
      }
      std::uint32_t const even = half_pair(by_re[0] - by_im[2], by_re[2] + by_im[0]);
      std::uint32_t const odd = half_pair(by_re[1] - by_im[3], by_re[3] + by_im[1]);
      if (second == 0) {
        kept[n][0] = even;
        kept[n][1] = odd;
      } else {
        std::uint32_t* const to = spectrum + product_word<N>(pair, g, 8 * n + 2 * t);
        *reinterpret_cast<uint2*>(to) = uint2{low_halves(kept[n][0], even), low_halves(kept[n][1], odd)};
        *reinterpret_cast<uint2*>(to + 8 * N) = uint2{high_halves(kept[n][0], even), high_halves(kept[n][1], odd)};
      }
    }
  }
}

// 32 rows of an image: the sums that meet cosines and sines, [16 rows][tile of 8 columns of the half grid].
template <int N>
struct HalfGrid {
  Tile cosines[2][N / 16], sines[2][N / 16];
};

template <int N>
__device__ __forceinline__ void warp_invert_rows(HalfGrid<N>& sums, std::uint32_t const* spectrum,
                                                 OutputConstants<N> const& constants, int image, int first_row) {
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int step = 0; step < N / 16; ++step) {
    std::uint32_t a[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int part = 0; part < 2; ++part)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          a[m][part][e] =
              spectrum[product_word<N>(8 * step + 4 * (e / 2) + t, image, first_row + 16 * m + g + 8 * (e % 2)) +
                       part * 8 * N];
#pragma unroll
    for (int n = 0; n < N / 16; n += 2)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        uint4 const b = constants[part][step][n / 2][lane];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          auto& tiles = part ? sums.sines[m] : sums.cosines[m];
          warp_mma<__half>(tiles[n], a[m][part][0], a[m][part][1], a[m][part][2], a[m][part][3], b.x, b.y);
          warp_mma<__half>(tiles[n + 1], a[m][part][0], a[m][part][1], a[m][part][2], a[m][part][3], b.z, b.w);
        }
      }
  }
}

// Unfolds, scales, adds the shortcut, stores: a lane has N / 8 neighbouring columns of either half.
template <int N, bool plain, typename Element>
__device__ __forceinline__ void warp_store_grid(HalfGrid<N> const& sums, ForwardKernelArgs<Element> const& p,
                                                std::int64_t b, std::int64_t c, int first_row, int exponent) {
  constexpr int words = N / 16;
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  int const half_exponent = exponent >> 1;
  float const scale = power_of_two(half_exponent), rest = power_of_two(exponent - half_exponent);
  bool const has_shortcut = !plain && p.shortcut.data;
  float const shortcut =
      has_shortcut ? thread_load<float>(p.shortcut.data, p.shortcut.dtype, c * p.shortcut.stride) : 0.f;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      int const row = first_row + 16 * m + g + 8 * q;
      if (row >= p.shape.rows.extent) continue;
      Element const* const x = p.x.data + b * p.x.batch + c * p.x.channel + row * p.x.row;
      Element* const to = p.y.data + b * p.y.batch + c * p.y.channel + row * p.y.row;
      alignas(16) std::uint32_t near[words], far[words];
#pragma unroll
      for (int n = 0; n < words; ++n) {
        float value[2][2];  // [near, far][column]
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float const even = sums.cosines[m][n][2 * q + e] * scale * rest,
                      odd = sums.sines[m][n][2 * q + e] * scale * rest;
          value[0][e] = even + odd;
          value[1][e] = even - odd;
        }
        int const column = 2 * words * t + 2 * n;
        if (has_shortcut)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (column + e < p.shape.columns.extent) value[0][e] += shortcut * widened(x[(column + e) * p.x.column]);
            if (N - 1 - column - e < p.shape.columns.extent)
              value[1][e] += shortcut * widened(x[(N - 1 - column - e) * p.x.column]);
          }
        near[n] = pack<Element>(value[0][0], value[0][1]);
        far[words - 1 - n] = pack<Element>(value[1][1], value[1][0]);
      }
      int const far_column = N - 2 * words * (t + 1);
      if (plain || p.y.vectors) {
        using Vector = std::conditional_t<words == 4, uint4, uint2>;
        *reinterpret_cast<Vector*>(to + 2 * words * t) = reinterpret_cast<Vector const&>(near);
        *reinterpret_cast<Vector*>(to + far_column) = reinterpret_cast<Vector const&>(far);
      } else {
#pragma unroll
        for (int i = 0; i < 2 * words; ++i) {
          auto const element = [&](std::uint32_t const(&from)[words]) {
            std::uint32_t const bits = from[i / 2] >> (16 * (i % 2));
            return reinterpret_cast<Element const&>(bits);
          };
          int const column = 2 * words * t + i;
          if (column < p.shape.columns.extent) to[column * p.y.column] = element(near);
          if (far_column + i < p.shape.columns.extent) to[(far_column + i) * p.y.column] = element(far);
        }
      }
    }
}

}  // namespace faltung::long_conv::cuda::spectral
