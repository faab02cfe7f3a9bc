// Elements to shared memory through registers, eight loads under way at a time.
#pragma once

namespace faltung::long_conv::cuda::line {

// store(i, load(i)) for i < count; load is called for i up to 8 blockDim.x beyond, too, where `inside` is false.
template <typename Load, typename Store>
__device__ __forceinline__ void block_stage(int count, Load const& load, Store const& store) {
  constexpr int unroll = 8;
  for (int start = threadIdx.x; start < count; start += unroll * blockDim.x) {
    decltype(load(0, true)) values[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int const i = start + u * int(blockDim.x);
      values[u] = load(i, i < count);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u)
      if (int const i = start + u * int(blockDim.x); i < count) store(i, values[u]);
  }
}

}  // namespace faltung::long_conv::cuda::line
