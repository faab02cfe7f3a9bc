// The spectral method for grids of up to N x N points, N = 32 or 64: the contiguous axis is transformed (a DFT of 2N
// points at the N frequencies f + 1/2, which leaves no packed real bins), along the rows a Toeplitz product remains per
// frequency. What aliases falls outside the crop. Operands are fp16 under powers of two per image and per filter, sums
// are fp32.
#pragma once
#include <cstdint>

#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::spectral {

using toeplitz::LagAxis, toeplitz::Shape, toeplitz::Shortcut, toeplitz::Tensor;

inline constexpr int images = 8;

template <int N>
struct Plan {
  static constexpr int warps = N / 4, threads = 32 * warps;
  static constexpr int blocks = N == 64 ? 1 : 3;  // per multiprocessor
  static constexpr int warps_per_image = N / 32;  // a warp transforms 32 rows
  static constexpr int slot_tiles = N / 16, input_steps = N / 32, filter_steps = N / 16, row_tiles = N / 8;
  // Words of one frequency ("slot"): 8 images x N rows, re and im; the filter's 2N - 1 row lags, one word of re and im
  // each. The padding keeps neighbouring slots in different banks.
  static constexpr int slot_stride = 8 * N + (N == 32 ? 16 : 0), filter_stride = 2 * N + 8;
};

// Fragments of the DFT matrices, in the order in which lanes read them: cosines, then sines.
template <int N>
using InputConstants = uint4[2][Plan<N>::slot_tiles][Plan<N>::input_steps][32];  // A [slot][folded column]
template <int N>
using FilterConstants = uint4[2][Plan<N>::slot_tiles][Plan<N>::filter_steps][32];  // A [slot][folded column lag], -sin
template <int N>
using OutputConstants = uint4[2][N / 16][N / 32][32];  // B [slot][folded column], two tiles of 8 columns
template <int N>
using LagConstants = uint4[2][N / 16][N / 16][32];  // B [slot][folded column lag], two tiles of 8 lags, -sin

template <int N>
struct alignas(128) Shared {
  std::uint32_t spectrum[N * Plan<N>::slot_stride];
  std::uint32_t filter_spectrum[N * Plan<N>::filter_stride];
  std::uint32_t filter[(2 * N - 1) * N];  // [row lag][column lags 0 .. N-1, then 0 .. -(N-1)], 16-bit
  InputConstants<N> input_constants;
  FilterConstants<N> filter_constants;
  OutputConstants<N> output_constants;
  std::uint32_t image_maxima[Plan<N>::warps], filter_maxima[Plan<N>::warps];
};

// The gradient of the filter works on 32 slots at a time.
inline constexpr int gradient_slots = 32;

template <int N>
struct GradientPlan {
  static constexpr int blocks = N == 64 ? 1 : 2;
  static constexpr int slot_stride = 8 * N + 8;  // words of re and im: 8 images x N rows
  static constexpr int sum_stride = 2 * N + 8;   // of lags: words of re and im, or floats of the result
};

template <int N>
struct alignas(128) GradientShared {
  union {
    std::uint32_t spectra[2][gradient_slots * GradientPlan<N>::slot_stride];  // of x and of dy
    float result[2 * N * GradientPlan<N>::sum_stride];                        // [row lag + N][column lag + N]
  };
  std::uint32_t sums[N * GradientPlan<N>::sum_stride];  // [slot][row lag + N]
  InputConstants<N> input_constants;
  LagConstants<N> lag_constants;
  std::uint32_t maxima[2][Plan<N>::warps];
};

// dk of at most eight images.
template <typename Element>
struct GradientKernelArgs {
  Shape shape;
  Tensor<Element const*> dy, x;
  Tensor<Element*> dk;
};

template <typename Element>
struct ForwardKernelArgs {
  Shape shape;
  Tensor<Element const*> x, k;  // x.vectors: whole aligned rows of N points
  Shortcut shortcut;
  Tensor<Element*> y;
};

}  // namespace faltung::long_conv::cuda::spectral
