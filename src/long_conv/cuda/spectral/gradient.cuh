// dk of one filter per turn of a persistent block: G[f, d] = sum over images b and rows i of dY[f, b, i] conj X[f, b, i
// - d], with the MMA's K = 8 images x {re, im}; then back over the frequencies. 32 slots at a time. The images of a
// group of eight share one power of two, since they are added up; the sums of groups are fp32 under that of the
// largest.
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

// Rows of an image to the spectra of slots 16 tile .. 16 tile + 15 and their mirror images; `low`: what the first slots
// lack, or null.
template <int N, typename Element>
__device__ __forceinline__ void warp_store_gradient_spectrum(std::uint32_t* spectrum, std::uint32_t* low, Rows<N>& rows,
                                                             InputConstants<N, Element> const& constants, int tile,
                                                             int image, int first_row) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll 1
  for (int mirrored = 0; mirrored < 2; ++mirrored) {
    Tile re[4] = {}, im[4] = {};
    if (mirrored) thread_negate_even<N>(rows);
    warp_transform_rows<N, Element>(re, im, rows, constants, tile, mirrored);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        int const row = first_row + 8 * n + 2 * t;
        SplitWord const first = split(re[n][2 * q], im[n][2 * q]), second = split(re[n][2 * q + 1], im[n][2 * q + 1]);
        *reinterpret_cast<uint2*>(spectrum + gradient_word<N>(16 * mirrored + g + 8 * q, image, row)) =
            uint2{first.high, second.high};
        if constexpr (std::is_same_v<Element, __half>)
          if (low && !mirrored && q == 0 && g < low_slots)
            *reinterpret_cast<uint2*>(low + gradient_word<N>(g, image, row)) = uint2{first.low, second.low};
      }
  }
}

// Where the operands of the sums of a slot lie.
struct SlotOperands {
  std::uint32_t const *x, *dy;
};

// A slot's operands, and their products, whose sums along the diagonals are those by row lags.
template <int N>
struct SumTiles {
  static constexpr int tiles = N / 16, diagonals = toeplitz::diagonals<tiles>;
  std::uint32_t dy[tiles][4], x[2 * tiles][2];

  __device__ __forceinline__ void load(std::uint32_t const* from_x, std::uint32_t const* from_dy, int slot) {
    int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll
    for (int m = 0; m < tiles; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) dy[m][e] = from_dy[gradient_word<N>(slot, t + 4 * (e / 2), 16 * m + g + 8 * (e % 2))];
#pragma unroll
    for (int n = 0; n < 2 * tiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) x[n][e] = from_x[gradient_word<N>(slot, t + 4 * e, 8 * n + g)];
  }
  // (re, im) of x to (-im, re): what is left is the imaginary part.
  __device__ __forceinline__ void turn() {
#pragma unroll
    for (int n = 0; n < 2 * tiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) x[n][e] = swap_halves(x[n][e]) ^ 0x8000u;
  }
  __device__ __forceinline__ void multiply(float (&blocks)[diagonals][4]) const {
#pragma unroll
    for (int m = 0; m < tiles; ++m)
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n)
        warp_mma<__half>(blocks[2 * m - n + 2 * tiles - 1], dy[m][0], dy[m][1], dy[m][2], dy[m][3], x[n][0], x[n][1]);
  }
};

// The sums of one slot, re and im: rows of dy meet rows of x. Of
// operands in two halves there are three pairs, the last one hi hi.
template <int N, int pairs>
__device__ __forceinline__ void warp_sum_slot(float (&lag_sums)[2][N / 16], SlotOperands const (&operands)[pairs],
                                              int slot) {
  SumTiles<N> tiles;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    float blocks[SumTiles<N>::diagonals][4] = {};
#pragma unroll
    for (int pair = 0; pair < pairs; ++pair) {
      if (pairs > 1 || part == 0) tiles.load(operands[pair].x, operands[pair].dy, slot);
      if (part == 1) tiles.turn();
      tiles.multiply(blocks);
    }
    toeplitz::warp_sum_diagonals<N / 16>(blocks, lag_sums[part]);
  }
}

// How the sums of a group join those of the groups before.
struct GroupScale {
  bool first;
  float before, now;
};

// The row lag, plus N, of a lane's sum in tile 0; tiles are 8 lags apart.
template <int N>
__device__ __forceinline__ int thread_first_lag() {
  constexpr int tiles = N / 16;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  return 8 * ((t & 1) * 2 * tiles + t / 2 * tiles) + ((g - 2 * t) & 7);
}

// A slot and its mirror image, at which even lags have the same cosine and the opposite sine, odd lags the reverse.
// `low`: what the slot's spectra lack, or null.
template <int N>
__device__ __forceinline__ void warp_add_slots(float2* sums, SlotOperands spectra, SlotOperands low, int slot,
                                               GroupScale scale) {
  constexpr int tiles = N / 16, stride = GradientPlan<N>::sum_stride;
  float direct[2][tiles], mirrored[2][tiles];
  if (low.x)
    warp_sum_slot<N, 3>(direct, {{low.x, spectra.dy}, {spectra.x, low.dy}, spectra}, slot);
  else
    warp_sum_slot<N, 1>(direct, {spectra}, slot);
  warp_sum_slot<N, 1>(mirrored, {spectra}, slot + gradient_slots / 2);
  sums += thread_first_lag<N>();
#pragma unroll
  for (int i = 0; i < tiles; ++i)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float2& to = sums[odd * (N / 2) * stride + 8 * i];
      float const sign = odd ? -1.f : 1.f;
      float2 sum{direct[0][i] + sign * mirrored[0][i], direct[1][i] - sign * mirrored[1][i]};
      if (!scale.first) sum = {to.x * scale.before + sum.x * scale.now, to.y * scale.before + sum.y * scale.now};
      to = sum;
    }
}

// Re and im of two neighbouring slots.
struct SumWords {
  std::uint32_t re, im;
};

// 16 row lags from first_row - N on x the even or the odd column lags, and their mirror images. read(slot, row) -> sums
// of slots slot + 2t, slot + 2t + 1 at row lag g + `row` of the 16.
template <int N, typename Element, typename Read>
__device__ __forceinline__ void warp_invert_lags(float* result, LagConstants<N, Element> const& constants,
                                                 int first_row, int parity, int exponent, Read const& read) {
  constexpr int tiles = N / 16;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  Tile cosines[tiles] = {}, sines[tiles] = {};
#pragma unroll
  for (int step = 0; step < N / 32; ++step) {
    std::uint32_t re[4], im[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      SumWords const words = read(16 * step + 8 * (e / 2), 8 * (e % 2));
      re[e] = words.re;
      im[e] = words.im;
    }
#pragma unroll
    for (int plane = 0; plane < planes<Element>; ++plane)
#pragma unroll
      for (int n = 0; n < tiles; n += 2) {
        uint4 const c = constants.load(plane, 0, parity * (N / 32) + step, n / 2, lane),
                    s = constants.load(plane, 1, parity * (N / 32) + step, n / 2, lane);
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
      int const lag = lag_of_column(parity, n, 2 * t + e % 2);
      float* const to = result + (first_row + g + 8 * (e / 2)) * GradientPlan<N>::result_stride + N;
      to[lag] = scaled(cosines[n][e] + sines[n][e], exponent);
      to[-lag] = scaled(cosines[n][e] - sines[n][e], exponent);
    }
}

// A filter per channel, or per sample and channel.
struct FilterPlace {
  int sample, channel;
};
__device__ __forceinline__ int filter_count(Shape const& shape) {
  return int(shape.channels) * (shape.images_per_filter > 1 ? 1 : int(shape.batch));
}
__device__ __forceinline__ FilterPlace filter_place(Shape const& shape, int filter) {
  if (shape.images_per_filter > 1) return {0, filter};
  return {filter % int(shape.batch), filter / int(shape.batch)};
}
// Its images in groups.
__device__ __forceinline__ int filter_groups(Shape const& shape) {
  return shape.images_per_filter > 1 ? (int(shape.batch) + images - 1) / images : 1;
}

__device__ __forceinline__ void warp_add(int volatile& to, int value) {
  int const sum = to + value;
  warp_write([&] { to = sum; });
}

// The powers of two of a group's images and of the sums so far.
__device__ __forceinline__ void warp_join_group(GradientState& state, int of_group) {
  int const running = state.running, next = state.group == 0 ? of_group : min(running, of_group);
  warp_write([&] {
    state.before = power_of_two(max(-126, next - running));
    state.now = power_of_two(max(-126, next - of_group));
    state.running = next;
  });
}

// Powers of two of an image's x and dy. In a group their product is the same for all images, since these are added up:
// an image of small x and large dy counts as much as one of the reverse.
struct ImageExponents {
  int x, dy, both;
};
template <int warps_per_image, int warps, typename Normalise>
__device__ __forceinline__ ImageExponents warp_image_exponents(std::uint32_t const (&maxima)[2][warps], int image,
                                                               Normalise const& normalise) {
  int const of_lane = thread_lane() % images * warps_per_image;
  int const x = normalise(max(maxima[0][of_lane], maxima[0][of_lane + warps_per_image - 1]));
  int both = x + normalise(max(maxima[1][of_lane], maxima[1][of_lane + warps_per_image - 1]));
#pragma unroll
  for (int other = images / 2; other; other /= 2) both = min(both, __shfl_xor_sync(~0u, both, other));
  int const of_image = min(__shfl_sync(~0u, x, image), both + 126);  // dy's may then be -126
  return {of_image, both - of_image, both};
}

// Bits that the sums of all groups need beside those of one.
__device__ __forceinline__ int group_headroom(Shape const& shape) { return 32 - __clz(filter_groups(shape) - 1); }

// dk of a filter from its sums, [row lag + N][column lag + N].
template <int N, typename Element, typename Filter>
__device__ __forceinline__ void block_store_result(GradientKernelArgs<Element, Filter> const& p, float const* result,
                                                   FilterPlace place) {
  constexpr int stride = GradientPlan<N>::result_stride;
  Filter* const dk = p.dk.data + place.sample * p.dk.batch + place.channel * p.dk.channel;
  if constexpr (sizeof(Filter) == 2)
    if (p.whole) return toeplitz::block_store_whole_gradient<2 * N - 1>(dk, result + stride + 1, stride);
  toeplitz::block_store_filter_gradient(dk, p.dk, result + (p.shape.rows.low + N) * stride + N, stride, p.shape);
}

// A warp's rows of x and dy of a group of images; zeros where there is none.
template <int N, bool plain, typename Args>
__device__ __forceinline__ void warp_load_group(Rows<N> (&rows)[2], Args const& p, int filter, int group) {
  using P = Plan<N>;
  int const warp = thread_warp(), image = warp / P::warps_per_image, first_row = warp % P::warps_per_image * 32;
  auto const place = filter_place(p.shape, filter);
  int const b = place.sample + group * images + image;
  rows[0] = rows[1] = {};
  if (filter < filter_count(p.shape) && image < p.shape.images_per_filter && b < int(p.shape.batch)) {
    warp_load_rows<N, plain>(rows[0], p.x, p.shape, b, place.channel, first_row);
    warp_load_rows<N, plain>(rows[1], p.dy, p.shape, b, place.channel, first_row);
  }
}

template <int N, bool plain, typename Element, typename Filter>
__global__ __launch_bounds__(Plan<N>::threads, GradientPlan<N>::blocks) void gradient_kernel(
    __grid_constant__ GradientKernelArgs<Element, Filter> const p) {
  using P = Plan<N>;
  grid_release_successor();
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<GradientShared<N, Element>*>(dynamic_shared);
  Shape const& shape = p.shape;
  auto cosines = block_make_cosines<N>(shared.sums);
  block_make_input_constants<N>(shared.input_constants, cosines);
  block_make_lag_constants<N>(shared.lag_constants, cosines);
  GradientState& state = shared.states[threadIdx.x / 32];
  if (!p.overlaps) grid_wait_for_predecessor();
  warp_write([&] { state.filter = blockIdx.x; });
  Rows<N> rows[2];  // of x, of dy: asked for when the registers of the turn before are free
  warp_load_group<N, plain>(rows, p, state.filter, 0);
#pragma unroll 1
  for (; state.filter < filter_count(shape); warp_add(state.filter, gridDim.x)) {
    warp_write([&] { state.group = 0; });
    if (int const next = state.filter + int(gridDim.x); next < filter_count(shape)) {
      auto const place = filter_place(shape, next);
      thread_prefetch_images(p.x, shape, place.sample, place.channel);
      thread_prefetch_images(p.dy, shape, place.sample, place.channel);
    }
#pragma unroll 1
    for (; state.group < filter_groups(shape); warp_add(state.group, 1)) {
#pragma unroll 1
      for (int tile = 0; tile < P::direct_tiles; ++tile) {
        {
          int const warp = thread_warp(), image = warp / P::warps_per_image;
          int const first_row = warp % P::warps_per_image * 32;
          if (tile == 0) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              std::uint32_t const most = warp_magnitude<N, Element>(rows[i]);
              warp_write([&] { shared.maxima[i][warp] = most; });
            }
          }
          __syncthreads();  // also: the slots before, or the result of the filter before, have been read
          auto const exponents = warp_image_exponents<P::warps_per_image>(
              shared.maxima, image, [](std::uint32_t most) { return normalising_exponent<Element>(most); });
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            thread_fold<N, Element>(rows[i], i ? exponents.dy : exponents.x);
            std::uint32_t* low = nullptr;
            if constexpr (std::is_same_v<Element, __half>) low = tile == 0 ? shared.low.spectra[i] : nullptr;
            warp_store_gradient_spectrum<N, Element>(shared.spectra[i], low, rows[i], shared.input_constants, tile,
                                                     image, first_row);
          }
          if (tile == 0) warp_join_group(state, exponents.both);
        }
        __syncthreads();
        GroupScale const scale{state.group == 0, state.before, state.now};
#pragma unroll 1
        for (int slot = thread_warp(); slot < gradient_slots / 2; slot += P::warps) {
          SlotOperands low{};
          if constexpr (std::is_same_v<Element, __half>)
            if (tile == 0 && slot < low_slots) low = {shared.low.spectra[0], shared.low.spectra[1]};
          warp_add_slots<N>(shared.sums + (16 * tile + slot) * GradientPlan<N>::sum_stride,
                            {shared.spectra[0], shared.spectra[1]}, low, slot, scale);
        }
        bool const same = tile + 1 < P::direct_tiles, last = state.group + 1 == filter_groups(shape);
        warp_load_group<N, plain>(rows, p, state.filter + (same || !last ? 0 : int(gridDim.x)),
                                  same   ? state.group
                                  : last ? 0
                                         : state.group + 1);
      }
    }
    __syncthreads();
    {
      constexpr int log2_N = N == 64 ? 6 : 5, stride = GradientPlan<N>::sum_stride;
      int const headroom_exponent = gradient_headroom - group_headroom(shape);
      float const headroom = power_of_two(headroom_exponent);
      int const warp = thread_warp(), lane = thread_lane(), first_row = warp / 2 * 16, parity = warp % 2;
      float2 const* const sums = shared.sums + (parity * (N / 2) + lane % 4 * 2) * stride + first_row + lane / 4;
      warp_invert_lags<N, Element>(shared.result, shared.lag_constants, first_row, parity,
                                   -state.running - headroom_exponent - log2_N, [&](int slot, int row) -> SumWords {
                                     float2 const first = sums[slot * stride + row],
                                                  second = sums[(slot + 1) * stride + row];
                                     return {half_pair(first.x * headroom, second.x * headroom),
                                             half_pair(first.y * headroom, second.y * headroom)};
                                   });
    }
    __syncthreads();
    auto const place = filter_place(shape, state.filter);
    block_store_result<N>(p, shared.result, place);
  }
  if (p.overlaps) grid_wait_for_predecessor();  // what follows may count on both
}

}  // namespace faltung::long_conv::cuda::spectral
