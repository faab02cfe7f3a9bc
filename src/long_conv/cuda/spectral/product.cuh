// Along the rows: per slot a complex Toeplitz product, then back to the grid.
#pragma once
#include "long_conv/cuda/spectral/transform.cuh"

namespace faltung::long_conv::cuda::spectral {

// The 16 words of 16 grid rows of an image in a slot: before the product they belong to the warp that transforms these
// rows, after it to the same warp, which takes them back. The order of images within a slot, and of the halves of the
// 16 words after the product, keeps what a warp accesses at a time in different banks.
template <int N>
__device__ __forceinline__ int image_word(int slot, int image, int row_tile) {
  return slot * Plan<N>::slot_stride + row_tile * 128 + (image ^ (slot & 7) ^ (slot >> 1 & 1)) * 16;
}

// Spectrum of the images before the product: per slot and 16 rows one A fragment of 16 rows (re of 8 images, then im) x
// 16 grid rows.
template <int N, typename Element>
__device__ __forceinline__ void warp_store_spectrum(std::uint32_t* spectrum, LowSlots<N, Element>& low,
                                                    Tile const (&re)[4], Tile const (&im)[4], int tile, int image,
                                                    int first_row) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    std::uint32_t* const to = spectrum + image_word<N>(16 * tile + 8 * q + g, image, first_row / 16) + 4 * t;
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      SplitWord const words[4] = {split(re[n][2 * q], re[n][2 * q + 1]), split(im[n][2 * q], im[n][2 * q + 1]),
                                  split(re[n + 1][2 * q], re[n + 1][2 * q + 1]),
                                  split(im[n + 1][2 * q], im[n + 1][2 * q + 1])};
      *reinterpret_cast<uint4*>(to + n / 2 * 128) = uint4{words[0].high, words[1].high, words[2].high, words[3].high};
      if constexpr (std::is_same_v<Element, __half>)
        if (tile == 0 && q == 0 && g < low_slots)
          *reinterpret_cast<uint4*>(low.spectrum + image_word<N>(g, image, first_row / 16 + n / 2) + 4 * t) =
              uint4{words[0].low, words[1].low, words[2].low, words[3].low};
    }
  }
}

// Two slots at a time, in place; afterwards a word holds both slots of a pair, re in the place of the first, im in that
// of the second.
__device__ __forceinline__ int product_swizzle(int slot, int image) { return ((slot >> 2 ^ image >> 1) & 1) * 8; }

// What the lanes of a warp read of the filter for output rows 8 n and on, n < row_tiles: words of row lags 8 z + g - 2t
// - (8 (2 tiles - 1)) and the one before.
template <int N, int words>
__device__ __forceinline__ void warp_load_lags(std::uint32_t (&re)[words], std::uint32_t (&im)[words],
                                               std::uint32_t const* filter_spectrum, int g, int t) {
  constexpr int first_block = 2 * (N / 16) - 1;
  std::uint32_t const* const lags = filter_spectrum + N - 1 + g - 2 * t;
#pragma unroll
  for (int z = 0; z < words; ++z) {
    std::uint32_t const first = lags[8 * (z - first_block)], before = lags[8 * (z - first_block) - 1];
    re[z] = low_halves(first, before);
    im[z] = high_halves(first, before);
  }
}

// Columns 2t, 2t + 1 of the complex product as words of re and im.
__device__ __forceinline__ uint2 complex_words(Tile const& by_re, Tile const& by_im) {
  return {half_pair(by_re[0] - by_im[2], by_re[2] + by_im[0]), half_pair(by_re[1] - by_im[3], by_re[3] + by_im[1])};
}

template <int N>
__device__ __forceinline__ void thread_store_product(std::uint32_t* spectrum, int pair, int n, int g, int t,
                                                     uint2 first, uint2 second) {
  int const word = (n % 2 * 8 + 2 * t) ^ product_swizzle(2 * pair, g);
  *reinterpret_cast<uint2*>(spectrum + image_word<N>(2 * pair, g, n / 2) + word) =
      uint2{low_halves(first.x, second.x), low_halves(first.y, second.y)};
  *reinterpret_cast<uint2*>(spectrum + image_word<N>(2 * pair + 1, g, n / 2) + word) =
      uint2{high_halves(first.x, second.x), high_halves(first.y, second.y)};
}

template <int N>
__device__ __forceinline__ void warp_multiply_slots(std::uint32_t* spectrum, std::uint32_t const* filter_spectrum,
                                                    int pair) {
  using P = Plan<N>;
  constexpr int tiles = N / 16, words = 4 * tiles - 1;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  uint2 kept[P::row_tiles];
#pragma unroll
  for (int second = 0; second < 2; ++second) {
    int const slot = 2 * pair + second;
    uint4 x[tiles];
#pragma unroll
    for (int in = 0; in < tiles; ++in)
      x[in] = *reinterpret_cast<uint4 const*>(spectrum + image_word<N>(slot, g, in) + 4 * t);
    std::uint32_t re[words], im[words];
    warp_load_lags<N>(re, im, filter_spectrum + slot * P::filter_stride, g, t);
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
      uint2 const product = complex_words(by_re, by_im);
      if (second == 0)
        kept[n] = product;
      else
        thread_store_product<N>(spectrum, pair, n, g, t, kept[n], product);
    }
  }
}

// The first pair of slots, whose operands have two halves.
template <int N>
__device__ __forceinline__ void warp_multiply_low_slots(std::uint32_t* spectrum, std::uint32_t const* filter_spectrum,
                                                        LowSlots<N, __half> const& low) {
  using P = Plan<N>;
  constexpr int tiles = N / 16, half_tiles = P::row_tiles / 2, words = half_tiles + 2 * tiles - 1;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  uint2 products[2][P::row_tiles];
#pragma unroll
  for (int slot = 0; slot < 2; ++slot)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Tile by_re[half_tiles] = {}, by_im[half_tiles] = {};
#pragma unroll 1
      for (int pass = 0; pass < 3; ++pass) {  // lo hi, hi lo, hi hi
        std::uint32_t const* const from = pass == 0 ? low.spectrum : spectrum;
        std::uint32_t const* const lags = pass == 1 ? low.filter_spectrum : filter_spectrum;
        uint4 x[tiles];
#pragma unroll
        for (int in = 0; in < tiles; ++in)
          x[in] = *reinterpret_cast<uint4 const*>(from + image_word<N>(slot, g, in) + 4 * t);
        std::uint32_t re[words], im[words];
        warp_load_lags<N>(re, im, lags + slot * P::filter_stride + 8 * half * half_tiles, g, t);
#pragma unroll
        for (int n = 0; n < half_tiles; ++n)
#pragma unroll
          for (int in = 0; in < tiles; ++in) {
            int const z = n - 2 * in + 2 * tiles - 1;
            warp_mma<__half>(by_re[n], x[in].x, x[in].y, x[in].z, x[in].w, re[z], re[z - 1]);
            warp_mma<__half>(by_im[n], x[in].x, x[in].y, x[in].z, x[in].w, im[z], im[z - 1]);
          }
      }
#pragma unroll
      for (int n = 0; n < half_tiles; ++n) products[slot][half * half_tiles + n] = complex_words(by_re[n], by_im[n]);
    }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < P::row_tiles; ++n) thread_store_product<N>(spectrum, 0, n, g, t, products[0][n], products[1][n]);
}

// 32 rows of an image: the sums that meet cosines and sines, [16 rows][tile of 8 columns of the half grid].
template <int N>
struct HalfGrid {
  Tile cosines[2][N / 16], sines[2][N / 16];
};

template <int N, typename Element>
__device__ __forceinline__ void warp_invert_rows(HalfGrid<N>& sums, std::uint32_t const* spectrum,
                                                 OutputConstants<N, Element> const& constants, int image,
                                                 int first_row) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  std::uint32_t const even_column = g % 2 ? 0 : sign_of_both;
  std::uint32_t const* from[2];  // re, im of slots 2t, 2t + 1, row g
#pragma unroll
  for (int part = 0; part < 2; ++part) from[part] = spectrum + image_word<N>(2 * t + part, image, first_row / 16) + g;
  int const swizzle = product_swizzle(2 * t, image);
#pragma unroll
  for (int step = 0; step < N / 16; ++step) {
    bool const mirrored = step >= N / 32;
    std::uint32_t a[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int part = 0; part < 2; ++part)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          a[m][part][e] =
              from[part][(16 * step + 8 * (e / 2)) * Plan<N>::slot_stride + m * 128 + (8 * (e % 2) ^ swizzle)];
#pragma unroll
    for (int n = 0; n < N / 16; n += 2)
#pragma unroll
      for (int part = 0; part < 2; ++part)
#pragma unroll
        for (int plane = 0; plane < planes<Element>; ++plane) {
          uint4 b = constants.load(plane, part ^ mirrored, step % (N / 32), n / 2, lane);
          if (mirrored) b = {b.x ^ even_column, b.y ^ even_column, b.z ^ even_column, b.w ^ even_column};
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
template <int N, bool plain, typename Element, typename Filter>
__device__ __forceinline__ void warp_store_grid(HalfGrid<N>& sums, ForwardKernelArgs<Element, Filter> const& p,
                                                std::int64_t b, std::int64_t c, int first_row, int exponent) {
  constexpr int words = N / 16;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  int const most_of_it = max(-126, min(127, exponent));
  float const scale = power_of_two(most_of_it);
  if (float const rest = power_of_two(exponent - most_of_it); rest != 1.f)
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < words; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums.cosines[m][n][i] *= rest;
          sums.sines[m][n][i] *= rest;
        }
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
          float const even = sums.cosines[m][n][2 * q + e], odd = sums.sines[m][n][2 * q + e];
          value[0][e] = (even + odd) * scale;
          value[1][e] = (even - odd) * scale;
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
