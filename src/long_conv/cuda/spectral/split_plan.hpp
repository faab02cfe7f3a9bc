// Shared memory of the spectral kernels in fp32, for grids of up to 32 x 32 points.
#pragma once
#include "long_conv/cuda/spectral/plan.hpp"

namespace faltung::long_conv::cuda::spectral {

struct alignas(128) SplitShared {
  static constexpr int N = 32, blocks = 2;
  std::uint32_t spectrum[2][N * Plan<N>::slot_stride];  // [plane], as in Shared
  std::uint32_t filter_spectrum[2][N * Plan<N>::filter_stride];
  float filter[2 * N * 2 * N];  // as in Shared
  InputConstants<N, float> input_constants;
  FilterConstants<N, float> filter_constants;
  OutputConstants<N, float> output_constants;
  TurnState states[Plan<N>::warps];
  std::uint32_t filter_maxima[2][Plan<N>::warps];
};

struct alignas(128) SplitGradientShared {
  static constexpr int N = 32, blocks = 2, slots = 16;  // at a time
  union {
    std::uint32_t spectra[2][2][slots * GradientPlan<N>::slot_stride];  // of x and of dy, [plane]
    float result[2 * N * GradientPlan<N>::result_stride];               // [row lag + N][column lag + N]
  };
  float2 sums[N * GradientPlan<N>::sum_stride];  // as in GradientShared
  InputConstants<N, float> input_constants;
  LagConstants<N, float> lag_constants;
  GradientState states[Plan<N>::warps];
  std::uint32_t maxima[2][Plan<N>::warps];
};

}  // namespace faltung::long_conv::cuda::spectral
