// The spectral method for grids of up to N x N points, N = 32 or 64: the contiguous axis is transformed (a DFT of 2N
// points at the N frequencies f + 1/2, which leaves no packed real bins), along the rows a Toeplitz product remains per
// frequency. What aliases falls outside the crop. Operands are fp16 under powers of two per image and per filter, sums
// are fp32.
//
// Frequencies come in pairs, f and its mirror image N - 1 - f, whose DFT matrices differ by signs and by the exchange
// of cosines and sines. "Slots" number them so that slot s < N / 2 is frequency s, and slot N / 2 + s its mirror.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::spectral {

using toeplitz::LagAxis, toeplitz::Shape, toeplitz::Shortcut, toeplitz::Tensor;

inline constexpr int images = 8;

template <int N>
struct Plan {
  static constexpr int warps = N / 4, threads = 32 * warps;
  static constexpr int blocks = N == 64 ? 1 : 3;  // per multiprocessor
  static constexpr int warps_per_image = N / 32;  // a warp transforms 32 rows
  static constexpr int rows_per_warp = 8;         // of the filter
  static constexpr int slot_tiles = N / 16, input_steps = N / 32, filter_steps = N / 16, row_tiles = N / 8;
  static constexpr int direct_tiles = slot_tiles / 2;  // the others are their mirror images
  // Words of one slot: 8 images x N rows, re and im; the filter's 2N - 1 row lags, one word of re and im each. The
  // padding keeps neighbouring slots in different banks.
  static constexpr int slot_stride = 8 * N, filter_stride = 2 * N + 8;
};

// Results in fp16 need constants in two halves, the rounded value and what it lacks: each rounding to fp16 adds as much
// error as rounding the result does, and twice that is the bound. bf16 is eight times coarser. In fp32 every operand
// has two halves.
template <typename Element>
inline constexpr int planes = std::is_same_v<Element, __nv_bfloat16> ? 1 : 2;

// Fragments of a DFT matrix at the first N / 2 slots, in the order in which lanes read them. What fp16 lacks is kept as
// the upper bytes of halves: three bits of it are enough, and shared memory is short.
template <typename Element, int outers, int inners>
struct Fragments {
  using Lacking = std::conditional_t<std::is_same_v<Element, float>, uint4, uint2>;
  uint4 rounded[2][outers][inners][32];  // [cosines, sines]
  Lacking lacking[2][outers][inners][32];
  __device__ __forceinline__ uint4 load(int plane, int wave, int outer, int inner, int lane) const {
    if (plane == 0) return rounded[wave][outer][inner][lane];
    Lacking const lack = lacking[wave][outer][inner][lane];
    if constexpr (std::is_same_v<Element, float>)
      return lack;
    else
      return {__byte_perm(lack.x, 0, 0x1404), __byte_perm(lack.x, 0, 0x3424), __byte_perm(lack.y, 0, 0x1404),
              __byte_perm(lack.y, 0, 0x3424)};
  }
  __device__ __forceinline__ void store(int plane, int wave, int outer, int inner, int lane, uint4 value) {
    if (plane == 0)
      rounded[wave][outer][inner][lane] = value;
    else if constexpr (std::is_same_v<Element, float>)
      lacking[wave][outer][inner][lane] = value;
    else  // rounded: 0x80 carries into the upper byte
      lacking[wave][outer][inner][lane] = {__byte_perm(value.x + 0x00800080, value.y + 0x00800080, 0x7531),
                                           __byte_perm(value.z + 0x00800080, value.w + 0x00800080, 0x7531)};
  }
};
template <int outers, int inners>
struct Fragments<__nv_bfloat16, outers, inners> {
  uint4 rounded[2][outers][inners][32];
  __device__ __forceinline__ uint4 load(int, int wave, int outer, int inner, int lane) const {
    return rounded[wave][outer][inner][lane];
  }
  __device__ __forceinline__ void store(int, int wave, int outer, int inner, int lane, uint4 value) {
    rounded[wave][outer][inner][lane] = value;
  }
};

template <int N, typename Element>  // A [slot][folded column]
using InputConstants = Fragments<Element, Plan<N>::direct_tiles, Plan<N>::input_steps>;
template <int N, typename Element>  // A [slot][folded column lag], -sin
using FilterConstants = Fragments<Element, Plan<N>::direct_tiles, Plan<N>::filter_steps>;
template <int N, typename Element>  // B [slot][folded column], two tiles of 8 columns
using OutputConstants = Fragments<Element, N / 32, N / 32>;
template <int N, typename Element>  // B [slot][folded column lag] for even, then for odd lags, two tiles of 8; -sin
using LagConstants = Fragments<Element, 2 * (N / 32), N / 32>;

// What an image of large mean has at the lowest frequencies outweighs the rest, and where the taps of a filter add up
// to little, so does its rounding: in fp16 the first slots have two halves.
inline constexpr int low_slots = 2;
template <int N, typename Element>
struct LowSlots {};
template <int N>
struct LowSlots<N, __half> {
  std::uint32_t spectrum[low_slots * Plan<N>::slot_stride];
  std::uint32_t filter_spectrum[low_slots * Plan<N>::filter_stride];
};

// What a warp keeps from one turn to the next. In shared memory, since registers are short and the first-level cache
// beside so much of it does not hold what is spilled.
struct alignas(16) TurnState {
  int volatile former_b, former_channel, image_exponent, filter_exponent;
  int volatile channel, group, parity, count;
  int volatile fresh;  // whether the next turn has a filter of its own
};

template <int N, typename Element>
struct alignas(128) Shared {
  std::uint32_t spectrum[N * Plan<N>::slot_stride];
  std::uint32_t filter_spectrum[N * Plan<N>::filter_stride];
  // [row lag, and one more of zeros][column lags 0 .. N-1, then 0 .. -(N-1)], 16-bit
  std::uint32_t filter[2 * N * N];
  InputConstants<N, Element> input_constants;
  FilterConstants<N, Element> filter_constants;
  OutputConstants<N, Element> output_constants;
  TurnState states[Plan<N>::warps];
  std::uint32_t image_maxima[Plan<N>::warps], filter_maxima[2][Plan<N>::warps];
  LowSlots<N, Element> low;
};

inline constexpr int largest_shared_memory = 227 * 1024;  // of a block, on sm_90 and sm_100
static_assert(sizeof(Shared<64, __half>) <= largest_shared_memory);

// The gradient of the filter works on 32 slots at a time: 16 and their mirror images.
inline constexpr int gradient_slots = 32;

template <int N>
struct GradientPlan {
  static constexpr int blocks = N == 64 ? 1 : 2;
  static constexpr int slot_stride = 8 * N + 8;    // words of re and im: 8 images x N rows
  static constexpr int sum_stride = 2 * N + 2;     // of lags: re and im
  static constexpr int result_stride = 2 * N + 8;  // of lags
};

struct alignas(16) GradientState {
  int volatile filter, group, running;
  float volatile before, now;
};

template <int N, typename Element>
struct LowGradientSlots {};
template <int N>
struct LowGradientSlots<N, __half> {
  std::uint32_t spectra[2][low_slots * GradientPlan<N>::slot_stride];
};

template <int N, typename Element>
struct alignas(128) GradientShared {
  union {
    std::uint32_t spectra[2][gradient_slots * GradientPlan<N>::slot_stride];  // of x and of dy
    float result[2 * N * GradientPlan<N>::result_stride];                     // [row lag + N][column lag + N]
  };
  float2 sums[N * GradientPlan<N>::sum_stride];  // [slot, for even lags, then for odd ones][row lag + N]
  InputConstants<N, Element> input_constants;
  LagConstants<N, Element> lag_constants;
  GradientState states[Plan<N>::warps];
  std::uint32_t maxima[2][Plan<N>::warps];
  LowGradientSlots<N, Element> low;
};

// x.vectors: whole aligned rows of N points. Filters are in the dtype of x, or in fp32.
template <typename Element, typename Filter = Element>
struct GradientKernelArgs {
  Shape shape;
  Tensor<Element const*> dy, x;
  Tensor<Filter*> dk;
  // The kernel before this one on the stream is that of dx, which shares nothing with it but inputs.
  bool overlaps = false;
  bool whole = false;  // contiguous filters of 2N - 1 rows of as many taps, with all their lags
};

template <typename Element, typename Filter = Element>
struct ForwardKernelArgs {
  Shape shape;
  Tensor<Element const*> x;
  Tensor<Filter const*> k;
  Shortcut shortcut;
  Tensor<Element*> y;
};

}  // namespace faltung::long_conv::cuda::spectral
