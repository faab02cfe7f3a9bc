// Elements of a call's tensors at [batch, channel, token] and [sequence, channel, column].
#pragma once
#include "causal_conv1d/cuda/arithmetic.cuh"
#include "causal_conv1d/cuda/sequences.cuh"
#include "cuda/element.cuh"

namespace faltung::causal_conv1d::cuda {

using faltung::cuda::thread_load, faltung::cuda::thread_store;

__device__ __forceinline__ std::int64_t offset(Strides const& s, std::int64_t b, std::int64_t c, std::int64_t t) {
  return b * s.batch + c * s.channel + t * s.time;
}
template <typename AnyState>
__device__ __forceinline__ std::int64_t offset(AnyState const& s, std::int64_t n, std::int64_t c, std::int64_t column) {
  return n * s.sequence + c * s.channel + column * s.column;
}

// xs `distance` tokens before token t of the run that `place` tells of.
template <typename Storage>
__device__ __forceinline__ Real<Storage> thread_token(ConstView const& x, ConstState const& state, Dtype state_dtype,
                                                      Place const& place, std::int64_t b, std::int64_t c,
                                                      std::int64_t t, std::int64_t distance) {
  if (distance <= place.age) return widen(static_cast<Storage const*>(x.data)[offset(x.strides, b, c, t - distance)]);
  if (place.state < 0 || !state.data) return 0;
  return thread_load<Real<Storage>>(state.data, state_dtype,
                                    offset(state, place.state, c, state.columns + place.age - distance));
}

template <typename Compute>
__device__ __forceinline__ Compute thread_weight(ConstWeight const& weight, Dtype dtype, std::int64_t c, int tap) {
  return thread_load<Compute>(weight.data, dtype, c * weight.channel + tap * weight.tap);
}
template <typename Compute>
__device__ __forceinline__ Compute thread_bias(ConstBias const& bias, Dtype dtype, std::int64_t c) {
  return bias.data ? thread_load<Compute>(bias.data, dtype, c * bias.stride) : Compute(0);
}

// The same bits where the dtypes are equal, else one rounding.
__device__ inline void thread_copy(void const* from, Dtype from_dtype, std::int64_t from_at, void* to, Dtype to_dtype,
                                   std::int64_t to_at) {
  if (from_dtype != to_dtype) {
    thread_store(to, to_dtype, to_at, thread_load<double>(from, from_dtype, from_at));
  } else if (from_dtype == FALTUNG_F64) {
    static_cast<std::uint64_t*>(to)[to_at] = static_cast<std::uint64_t const*>(from)[from_at];
  } else if (from_dtype == FALTUNG_F32) {
    static_cast<std::uint32_t*>(to)[to_at] = static_cast<std::uint32_t const*>(from)[from_at];
  } else {
    static_cast<std::uint16_t*>(to)[to_at] = static_cast<std::uint16_t const*>(from)[from_at];
  }
}

}  // namespace faltung::causal_conv1d::cuda
