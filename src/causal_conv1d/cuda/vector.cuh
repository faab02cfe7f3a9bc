// 16 bytes of neighbouring elements, as the tuned kernels load and store them, and what they share: parameters and
// histories in registers.
#pragma once
#include "causal_conv1d/cuda/tensors.cuh"

namespace faltung::causal_conv1d::cuda {

inline constexpr int channels_elements = 4;  // of a thread where channels lie side by side
template <typename Storage>
inline constexpr int vector_elements = int(16 / sizeof(Storage));

template <typename Storage>
__device__ __forceinline__ uint4 thread_load_vector(void const* data, std::int64_t at) {
  return *reinterpret_cast<uint4 const*>(static_cast<Storage const*>(data) + at);
}
// One store: left to itself the compiler takes a register at a time.
__device__ __forceinline__ void thread_store_words(void* to, uint4 words) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}
__device__ __forceinline__ void thread_store_words(void* to, uint2 words) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(words.x), "r"(words.y) : "memory");
}
__device__ __forceinline__ void thread_store_words(void* to, uint1 word) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(word.x) : "memory");
}
template <typename Storage>
__device__ __forceinline__ void thread_store_vector(void* data, std::int64_t at, uint4 value) {
  thread_store_words(static_cast<Storage*>(data) + at, value);
}

// `count` neighbouring elements in one register or several: 4, 8 or 16 bytes.
template <typename Storage, int count>
using Words = std::conditional_t<sizeof(Storage) * count == 16, uint4,
                                 std::conditional_t<sizeof(Storage) * count == 8, uint2, uint1>>;

__device__ __forceinline__ float2 widen_pair(std::uint32_t word, __nv_bfloat16) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
__device__ __forceinline__ float2 widen_pair(std::uint32_t word, __half) {
  return __half22float2(reinterpret_cast<__half2 const&>(word));
}
__device__ __forceinline__ std::uint32_t narrow_pair(float low, float high, __nv_bfloat16) {
  __nv_bfloat162 const pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}
__device__ __forceinline__ std::uint32_t narrow_pair(float low, float high, __half) {
  __half2 const pair = __floats2half2_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}

template <typename Storage, typename Words>
__device__ __forceinline__ void widen_words(Words const& words, float* to) {
  auto const word = reinterpret_cast<std::uint32_t const*>(&words);
#pragma unroll
  for (int i = 0; i < int(sizeof(Words) / 4); ++i)
    if constexpr (sizeof(Storage) == 2) {
      float2 const pair = widen_pair(word[i], Storage());
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    } else {
      to[i] = __uint_as_float(word[i]);
    }
}
template <typename Storage, typename Words>
__device__ __forceinline__ Words narrow_words(float const* from) {
  Words words;
  auto const word = reinterpret_cast<std::uint32_t*>(&words);
#pragma unroll
  for (int i = 0; i < int(sizeof(Words) / 4); ++i)
    if constexpr (sizeof(Storage) == 2)
      word[i] = narrow_pair(from[2 * i], from[2 * i + 1], Storage());
    else
      word[i] = __float_as_uint(from[i]);
  return words;
}

// The `before` tokens before the one at `from`, which is token t of its row and begins a vector; zeros where the row
// has none.
template <typename Storage, int before>
__device__ __forceinline__ void thread_load_before(Storage const* from, std::int64_t t, float* to) {
  constexpr int piece = int(before * sizeof(Storage) <= 8 ? 8 : 16) / int(sizeof(Storage)),
                pieces = (before + piece - 1) / piece;
  using Words = Words<Storage, piece>;
  float tokens[pieces * piece];
#pragma unroll
  for (int i = 0; i < pieces; ++i) {
    int const back = (pieces - i) * piece;
    widen_words<Storage>(t >= back ? *reinterpret_cast<Words const*>(from - back) : Words{}, tokens + i * piece);
  }
#pragma unroll
  for (int k = 0; k < before; ++k) to[k] = tokens[pieces * piece - before + k];
}

// `Count` elements of any dtype, `stride` apart, all asked for before the first is used.
template <int Count, typename Element>
__device__ __forceinline__ void thread_gather(Element const* from, std::int64_t stride, float* to) {
  Element values[Count];
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = from[i * stride];
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = float(widen(values[i]));
}
// Out of line, and through memory: in line these would be most of a kernel.
template <int Count>
__device__ __noinline__ void thread_gather(void const* from, Dtype dtype, std::int64_t at, std::int64_t stride,
                                           float* to) {
  switch (dtype) {
    case FALTUNG_F64:
      return thread_gather<Count>(static_cast<double const*>(from) + at, stride, to);
    case FALTUNG_F32:
      return thread_gather<Count>(static_cast<float const*>(from) + at, stride, to);
    case FALTUNG_F16:
      return thread_gather<Count>(static_cast<__half const*>(from) + at, stride, to);
    default:
      return thread_gather<Count>(static_cast<__nv_bfloat16 const*>(from) + at, stride, to);
  }
}

template <typename Storage>
inline constexpr Dtype dtype_of = sizeof(Storage) == 4 ? FALTUNG_F32 : FALTUNG_F16;
template <>
inline constexpr Dtype dtype_of<__nv_bfloat16> = FALTUNG_BF16;

template <typename Words>
__device__ __forceinline__ bool is_aligned(void const* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Words) == 0;
}

// Whether the weights of so many channels lie as [channels, Width] in the dtype of x.
template <typename Storage, int Width, int Channels>
__device__ __forceinline__ bool weights_are_words(Problem const& p, ConstWeight const& weight) {
  return weight.tap == 1 && weight.channel == Width && p.weight_dtype == dtype_of<Storage> &&
         is_aligned<Words<Storage, Channels>>(weight.data);
}
// Such weights, and biases [channels] in the dtype of x, 4, 8 or 16 bytes at a time.
template <typename Storage, int Width, int Channels>
__device__ __forceinline__ void thread_load_words(void const* data, std::int64_t c, float (&weights)[Width][Channels]) {
  using Words = Words<Storage, Channels>;
  Words words[Width];
  auto const from = reinterpret_cast<Words const*>(static_cast<Storage const*>(data) + c * Width);
#pragma unroll
  for (int j = 0; j < Width; ++j) words[j] = from[j];
  float values[Width * Channels];
#pragma unroll
  for (int j = 0; j < Width; ++j) widen_words<Storage>(words[j], values + j * Channels);
#pragma unroll
  for (int i = 0; i < Width * Channels; ++i) weights[i % Width][i / Width] = values[i];
}
template <typename Storage, int Channels>
__device__ __forceinline__ void thread_load_words(void const* data, std::int64_t c, float (&biases)[Channels]) {
  Words<Storage, Channels> words{};
  if (data) words = *reinterpret_cast<Words<Storage, Channels> const*>(static_cast<Storage const*>(data) + c);
  widen_words<Storage>(words, biases);
}

// Weights and biases of neighbouring channels, any dtype and strides; c is a multiple of Channels. Where they lie as
// [channels, width] in the dtype of x, they come as words.
template <typename Storage, int Width, int Channels>
__device__ __forceinline__ void thread_load_weights(Problem const& p, ConstWeight const& weight, std::int64_t c,
                                                    float (&weights)[Width][Channels]) {
  if (weights_are_words<Storage, Width, Channels>(p, weight)) {
    thread_load_words<Storage>(weight.data, c, weights);
    return;
  }
#pragma unroll
  for (int j = 0; j < Width; ++j) {
    float gathered[Channels];
    thread_gather<Channels>(weight.data, p.weight_dtype, c * weight.channel + j * weight.tap, weight.channel, gathered);
#pragma unroll
    for (int channel = 0; channel < Channels; ++channel) weights[j][channel] = gathered[channel];
  }
}

template <typename Storage, int Channels>
__device__ __forceinline__ void thread_load_bias(Problem const& p, ConstBias const& bias, std::int64_t c,
                                                 float (&biases)[Channels]) {
  using Words = Words<Storage, Channels>;
#pragma unroll
  for (int channel = 0; channel < Channels; ++channel) biases[channel] = 0;
  if (!bias.data) return;
  if (bias.stride == 1 && p.bias_dtype == dtype_of<Storage> && is_aligned<Words>(bias.data)) {
    thread_load_words<Storage>(bias.data, c, biases);
    return;
  }
  float gathered[Channels];
  thread_gather<Channels>(bias.data, p.bias_dtype, c * bias.stride, bias.stride, gathered);
#pragma unroll
  for (int channel = 0; channel < Channels; ++channel) biases[channel] = gathered[channel];
}

// xs `distance` tokens before token t, which is younger than that: of the state, or zero.
inline __device__ __noinline__ float thread_state(Cut const& cut, ConstState const& state, Dtype dtype,
                                                  std::int64_t row, std::int64_t c, std::int64_t t, int distance) {
  if (!state.data) return 0;
  auto const place = thread_place(cut, row, t, distance);
  if (place.state < 0) return 0;
  return thread_load<float>(state.data, dtype, offset(state, place.state, c, state.columns + place.age - distance));
}

// The `Before` tokens before token t of neighbouring channels, oldest first, some of which lie in the state.
template <typename Storage, int Before, int Channels>
__device__ __forceinline__ void thread_load_history(ConstView const& x, ConstState const& state, Dtype dtype,
                                                    Dtype state_dtype, Place const& place, std::int64_t b,
                                                    std::int64_t c, std::int64_t t,
                                                    float (&history)[Before][Channels]) {
#pragma unroll
  for (int k = 0; k < Before; ++k) {
    int const distance = Before - k;
    float row[Channels];
#pragma unroll
    for (int channel = 0; channel < Channels; ++channel) row[channel] = 0;
    if (distance <= place.age)
      thread_gather<Channels>(x.data, dtype, offset(x.strides, b, c, t - distance), x.strides.channel, row);
    else if (place.state >= 0 && state.data)
      thread_gather<Channels>(state.data, state_dtype,
                              offset(state, place.state, c, state.columns + place.age - distance), state.channel, row);
#pragma unroll
    for (int channel = 0; channel < Channels; ++channel) history[k][channel] = row[channel];
  }
}

}  // namespace faltung::causal_conv1d::cuda
