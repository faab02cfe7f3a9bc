// The spectral kernels in fp32: forward_kernel and gradient_kernel over split.cuh. A warp has an image.
#pragma once
#include "long_conv/cuda/spectral/forward.cuh"
#include "long_conv/cuda/spectral/gradient.cuh"
#include "long_conv/cuda/spectral/split.cuh"

namespace faltung::long_conv::cuda::spectral {

// `plain`: whole aligned rows in and out, no shortcut.
template <bool plain>
__global__ __launch_bounds__(Plan<split_N>::threads, SplitShared::blocks) void split_forward_kernel(
    __grid_constant__ ForwardKernelArgs<float> const p) {
  constexpr int N = split_N;
  using P = Plan<N>;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<SplitShared*>(dynamic_shared);
  Shape const& shape = p.shape;
  auto cosines = block_make_cosines<N>(shared.spectrum);
  block_make_input_constants<N>(shared.input_constants, cosines);
  block_make_filter_constants<N>(shared.filter_constants, cosines);
  block_make_output_constants<N>(shared.output_constants, cosines);
  TurnState& state = shared.states[threadIdx.x / 32];
  warp_begin_turns(state, shape);
  grid_wait_for_predecessor();
  grid_release_successor();  // not before: one that overlaps may read what this one may
  if (state.count == 0) return;
  __syncthreads();  // the table of cosines has been read

#pragma unroll 1
  for (int i = -1;; ++i) {  // a turn behind the staging of filters
    int const image = thread_warp(), former_channel = state.former_channel;
    if (int const b = state.former_b; b >= 0) {
      HalfGrid<N> sums = {};
      warp_invert_rows(sums, shared.spectrum, shared.output_constants, image);
      constexpr int log2_N = 5;
      warp_store_grid<plain>(sums, p, b, former_channel,
                             -state.image_exponent - state.filter_exponent - split_product_headroom - log2_N);
    }
    if (i == state.count) break;
    bool const one_filter = shape.images_per_filter > 1;  // of a channel
    Turn turn{state.channel, state.group};
    if (i >= 0) {
      int const b = turn.group * shape.images_per_filter + image;
      bool const present = image < shape.images_per_filter && b < int(shape.batch);
      ImageValues values = {};
      if (present) warp_load_image<plain>(values, p.x, shape, b, turn.channel);
      if (turn.channel != former_channel || !one_filter) {
        int const lane = thread_lane();
        int const exponent = split_exponent(
            warp_largest(lane < P::warps ? shared.filter_maxima[state.parity][lane] : 0), split_filter_magnitude);
        warp_write([&] { state.filter_exponent = exponent; });
        warp_transform_filter(shared.filter_spectrum, shared.filter, shared.filter_constants, exponent);
      }
      if (present) {  // the rows of a missing image spoil no others
        int const exponent = split_exponent(warp_magnitude(values), split_image_magnitude);
        warp_write([&] { state.image_exponent = exponent; });
        SplitRows rows;
        thread_fold(rows, values, power_of_two(exponent));
#pragma unroll 1
        for (int mirrored = 0; mirrored < 2; ++mirrored) {
          Tile re[4] = {}, im[4] = {};
          if (mirrored) thread_negate_even(rows);
          warp_transform_rows(re, im, rows, shared.input_constants, mirrored);
          warp_store_spectrum(shared.spectrum, re, im, mirrored, image);
        }
      }
      Turn const done = turn;
      turn.advance(group_count(shape));
      warp_write([&] {
        state.former_channel = done.channel;
        state.former_b = present ? b : -1;
        state.channel = turn.channel;
        state.group = turn.group;
      });
    }
    if (i + 1 < state.count && (i < 0 || turn.channel != state.former_channel || !one_filter)) {
      int const parity = state.parity ^ 1;
      warp_write([&] { state.parity = parity; });  // also: the rows of the filter before have been read
      warp_stage_filter(shared.filter, &shared.filter_maxima[parity][image], filter_of(p, turn), p.k, shape);
    }
    __syncthreads();
    thread_prefetch_turns(p, {state.channel, state.group}, state.count - i - 1);
    if (i >= 0)
#pragma unroll 1
      for (int pair = thread_warp(); pair < N / 2; pair += P::warps)
        warp_multiply_slots(shared.spectrum, shared.filter_spectrum, pair);
    __syncthreads();
  }
}

// The spectra of the first 16 slots, or of their mirror images.
template <int words>
__device__ __forceinline__ void warp_store_gradient_spectrum(std::uint32_t (&spectrum)[2][words], SplitRows& rows,
                                                             InputConstants<split_N, float> const& constants,
                                                             bool mirrored, int image) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  Tile re[4] = {}, im[4] = {};
  if (mirrored) thread_negate_even(rows);
  warp_transform_rows(re, im, rows, constants, mirrored);
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      int const to = gradient_word<split_N>(g + 8 * q, image, 8 * n + 2 * t);
      SplitWord const first = split(re[n][2 * q], im[n][2 * q]), second = split(re[n][2 * q + 1], im[n][2 * q + 1]);
      *reinterpret_cast<uint2*>(spectrum[0] + to) = uint2{first.high, second.high};
      *reinterpret_cast<uint2*>(spectrum[1] + to) = uint2{first.low, second.low};
    }
}

// As warp_sum_slot of 16 bits.
template <int words>
__device__ __forceinline__ void warp_sum_slot(float (&lag_sums)[2][split_N / 16],
                                              std::uint32_t const (&x_spectrum)[2][words],
                                              std::uint32_t const (&dy_spectrum)[2][words], int slot) {
  constexpr int N = split_N, tiles = N / 16, diagonals = toeplitz::diagonals<tiles>;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  uint4 dy[2][tiles];
  SplitWord x[2 * tiles][2];
#pragma unroll
  for (int plane = 0; plane < 2; ++plane) {
    auto const of_dy = [&](int m, int e) {
      return dy_spectrum[plane][gradient_word<N>(slot, t + 4 * (e / 2), 16 * m + g + 8 * (e % 2))];
    };
#pragma unroll
    for (int m = 0; m < tiles; ++m) dy[plane][m] = uint4{of_dy(m, 0), of_dy(m, 1), of_dy(m, 2), of_dy(m, 3)};
#pragma unroll
    for (int n = 0; n < 2 * tiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        (plane ? x[n][e].low : x[n][e].high) = x_spectrum[plane][gradient_word<N>(slot, t + 4 * e, 8 * n + g)];
  }
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    if (part == 1)  // (re, im) of x to (-im, re): what is left is the imaginary part
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) x[n][e] = {swap_halves(x[n][e].high) ^ 0x8000u, swap_halves(x[n][e].low) ^ 0x8000u};
    float blocks[diagonals][4] = {};
#pragma unroll
    for (int m = 0; m < tiles; ++m)
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n)
        warp_cross_mma(blocks[2 * m - n + 2 * tiles - 1], dy[0][m], dy[1][m], x[n][0], x[n][1]);
#pragma unroll
    for (int m = 0; m < tiles; ++m)
#pragma unroll
      for (int n = 0; n < 2 * tiles; ++n) {
        Tile high = {};
        warp_high_mma(high, dy[0][m], x[n][0], x[n][1]);
        thread_add(blocks[2 * m - n + 2 * tiles - 1], high);
      }
    toeplitz::warp_sum_diagonals<tiles>(blocks, lag_sums[part]);
  }
}

// As warp_add_slots of 16 bits, but slots and their mirror images come one after the other.
template <int words>
__device__ __forceinline__ void warp_add_slot(float2* sums, std::uint32_t const (&x_spectrum)[2][words],
                                              std::uint32_t const (&dy_spectrum)[2][words], int slot, bool mirrored,
                                              GroupScale scale) {
  constexpr int N = split_N, tiles = N / 16, stride = GradientPlan<N>::sum_stride;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  float lag_sums[2][tiles];
  warp_sum_slot(lag_sums, x_spectrum, dy_spectrum, slot);
  int const residue = (g - 2 * t) & 7, beta = (t & 1) * 2 * tiles + (t / 2) * tiles;  // plus 2 tiles
#pragma unroll
  for (int i = 0; i < tiles; ++i)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float2& to = sums[(odd * (N / 2) + slot) * stride + 8 * (beta + i) + residue];
      float2 sum{lag_sums[0][i], lag_sums[1][i]};
      if (mirrored) sum = {odd ? -sum.x : sum.x, odd ? sum.y : -sum.y};
      if (mirrored)
        sum = {to.x + sum.x * scale.now, to.y + sum.y * scale.now};
      else if (!scale.first)
        sum = {to.x * scale.before + sum.x * scale.now, to.y * scale.before + sum.y * scale.now};
      to = sum;
    }
}

// As warp_invert_lags of 16 bits.
__device__ __forceinline__ void warp_invert_lags(float* result, float2 const* sums,
                                                 LagConstants<split_N, float> const& constants, float headroom,
                                                 int exponent) {
  constexpr int N = split_N, tiles = N / 16, stride = GradientPlan<N>::sum_stride;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  int const first_row = warp / 2 * 16, parity = warp % 2;
  sums += (parity * (N / 2) + 2 * t) * stride + first_row + g;
  SplitWord re[4], im[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    float2 const* const from = sums + 8 * (e / 2) * stride + 8 * (e % 2);
    float2 const first = from[0], second = from[stride];
    re[e] = split(first.x * headroom, second.x * headroom);
    im[e] = split(first.y * headroom, second.y * headroom);
  }
  Tile cosines[tiles] = {}, sines[tiles] = {};
  auto const multiply = [&](Tile(&to)[tiles], SplitWord const(&a)[4], int wave) {
    uint4 const high = constants.load(0, wave, parity, 0, lane), low = constants.load(1, wave, parity, 0, lane);
    uint4 const a_high{a[0].high, a[1].high, a[2].high, a[3].high}, a_low{a[0].low, a[1].low, a[2].low, a[3].low};
    warp_split_mma(to[0], a_high, a_low, {high.x, low.x}, {high.y, low.y});
    warp_split_mma(to[1], a_high, a_low, {high.z, low.z}, {high.w, low.w});
  };
  multiply(cosines, re, 0);
  multiply(sines, im, 1);
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

template <bool plain>
__global__ __launch_bounds__(Plan<split_N>::threads, SplitGradientShared::blocks) void split_gradient_kernel(
    __grid_constant__ GradientKernelArgs<float> const p) {
  constexpr int N = split_N;
  using P = Plan<N>;
  grid_release_successor();
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<SplitGradientShared*>(dynamic_shared);
  Shape const& shape = p.shape;
  auto cosines = block_make_cosines<N>(shared.sums);
  block_make_input_constants<N>(shared.input_constants, cosines);
  block_make_lag_constants<N>(shared.lag_constants, cosines);
  GradientState& state = shared.states[threadIdx.x / 32];
  if (!p.overlaps) grid_wait_for_predecessor();
  warp_write([&] { state.filter = blockIdx.x; });
#pragma unroll 1
  for (; state.filter < filter_count(shape); warp_add(state.filter, gridDim.x)) {
    warp_write([&] { state.group = 0; });
#pragma unroll 1
    for (; state.group < filter_groups(shape); warp_add(state.group, 1)) {
#pragma unroll 1
      for (int mirrored = 0; mirrored < 2; ++mirrored) {
        {
          int const image = thread_warp();
          auto const place = filter_place(shape, state.filter);
          int const b = place.sample + state.group * images + image;
          ImageValues values[2] = {};  // of x, of dy
          if (image < shape.images_per_filter && b < int(shape.batch)) {
            warp_load_image<plain>(values[0], p.x, shape, b, place.channel);
            warp_load_image<plain>(values[1], p.dy, shape, b, place.channel);
          }
          if (!mirrored) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              std::uint32_t const most = warp_magnitude(values[i]);
              warp_write([&] { shared.maxima[i][image] = most; });
            }
          }
          __syncthreads();  // also: the slots before, or the result of the filter before, have been read
          auto const exponents = warp_image_exponents<1>(
              shared.maxima, image, [](std::uint32_t most) { return split_exponent(most, split_image_magnitude); });
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            SplitRows rows;
            thread_fold(rows, values[i], power_of_two(i ? exponents.dy : exponents.x));
            warp_store_gradient_spectrum(shared.spectra[i], rows, shared.input_constants, mirrored, image);
          }
          if (!mirrored) warp_join_group(state, exponents.both);
        }
        __syncthreads();
        GroupScale const scale{state.group == 0, state.before, state.now};
#pragma unroll 1
        for (int slot = thread_warp(); slot < SplitGradientShared::slots; slot += P::warps)
          warp_add_slot(shared.sums, shared.spectra[0], shared.spectra[1], slot, mirrored, scale);
      }
    }
    __syncthreads();
    {
      constexpr int log2_N = 5;
      int const headroom_exponent = split_gradient_headroom - group_headroom(shape);
      warp_invert_lags(shared.result, shared.sums, shared.lag_constants, power_of_two(headroom_exponent),
                       -state.running - headroom_exponent - log2_N);
    }
    __syncthreads();
    auto const place = filter_place(shape, state.filter);
    toeplitz::block_store_filter_gradient(p.dk.data + place.sample * p.dk.batch + place.channel * p.dk.channel, p.dk,
                                          shared.result + (shape.rows.low + N) * GradientPlan<N>::result_stride + N,
                                          GradientPlan<N>::result_stride, shape);
  }
  if (p.overlaps) grid_wait_for_predecessor();  // what follows may count on both
}

}  // namespace faltung::long_conv::cuda::spectral
