// The DFT matrices as fragments in shared memory. With w(f) = pi (2f + 1) / 2N every angle is a multiple of pi / 4N: a
// block evaluates 8N cosines and looks the rest up.
//
// Columns are folded about the centre of the grid: column i < N/2 stands for i and N-1-i, at distance r = (N-1)/2 - i,
// angle w(f) r = (2f + 1)(N - 1 - 2i) pi / 4N. Column lags are folded about 0: lag l has angle w(f) l = (2f + 1) 2l pi
// / 4N, and lag 0 counts half, since it meets itself. The order of columns within a fragment is that in which a lane
// holds them: (N/8) t + 2i and on for lane t.
#pragma once
#include "cuda/half.cuh"
#include "long_conv/cuda/spectral/plan.hpp"

namespace faltung::long_conv::cuda::spectral {

using namespace faltung::cuda;

enum class Wave { cosine, sine };

template <int N>
struct CosineTable {
  __half const* values;  // cos(pi i / 4N), i < 8N

  __device__ __forceinline__ __half at(Wave wave, int slot, int twice_distance) const {
    int const angle = (2 * slot + 1) * twice_distance - (wave == Wave::sine ? 2 * N : 0);
    return values[angle & (8 * N - 1)];
  }
  // Of the folded column, or of the one beside it in the same register.
  __device__ __forceinline__ std::uint32_t columns(Wave wave, int slot, int column) const {
    return pair(at(wave, slot, N - 1 - 2 * column), at(wave, slot, N - 3 - 2 * column));
  }
  __device__ __forceinline__ std::uint32_t slots(Wave wave, int slot, int column) const {
    return pair(at(wave, slot, N - 1 - 2 * column), at(wave, slot + 1, N - 1 - 2 * column));
  }
  // cos and -sin of column lags lag, lag + 1.
  __device__ __forceinline__ std::uint32_t lags(Wave wave, int slot, int lag) const {
    __half first = at(wave, slot, 2 * lag), second = at(wave, slot, 2 * lag + 2);
    if (wave == Wave::sine) return pair(__hneg(first), __hneg(second));
    return pair(lag == 0 ? __float2half(0.5f) : first, second);
  }
  // Of two neighbouring slots.
  __device__ __forceinline__ std::uint32_t lag_slots(Wave wave, int slot, int lag) const {
    __half const first = at(wave, slot, 2 * lag), second = at(wave, slot + 1, 2 * lag);
    return wave == Wave::sine ? pair(__hneg(first), __hneg(second)) : pair(first, second);
  }
  __device__ __forceinline__ static std::uint32_t pair(__half low, __half high) {
    return std::uint32_t(__half_as_ushort(low)) | std::uint32_t(__half_as_ushort(high)) << 16;
  }
};

// `scratch` holds 8N halves. Ends with a barrier.
template <int N>
__device__ __forceinline__ CosineTable<N> block_make_cosines(void* scratch) {
  auto* const values = static_cast<__half*>(scratch);
  for (int i = threadIdx.x; i < 8 * N; i += blockDim.x) values[i] = __float2half(cospif(float(i) / (4 * N)));
  __syncthreads();
  return {values};
}

// make(part, outer, inner) -> a lane's fragment, for all [2][outers][inners] of them.
template <int outers, int inners, typename Make>
__device__ __forceinline__ void block_make_fragments(uint4 (&to)[2][outers][inners][32], Make const& make) {
  for (int i = threadIdx.x / 32; i < 2 * outers * inners; i += blockDim.x / 32) {
    int const inner = i % inners, outer = i / inners % outers, part = i / (inners * outers);
    to[part][outer][inner][threadIdx.x % 32] = make(part ? Wave::sine : Wave::cosine, outer, inner);
  }
}

template <int N>
__device__ __forceinline__ void block_make_input_constants(InputConstants<N>& to, CosineTable<N> table) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, [&](Wave wave, int tile, int step) {
    int const slot = 16 * tile + g, column = N / 8 * t + 4 * step;
    return uint4{table.columns(wave, slot, column), table.columns(wave, slot + 8, column),
                 table.columns(wave, slot, column + 2), table.columns(wave, slot + 8, column + 2)};
  });
}

template <int N>
__device__ __forceinline__ void block_make_filter_constants(FilterConstants<N>& to, CosineTable<N> table) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, [&](Wave wave, int tile, int step) {
    int const slot = 16 * tile + g, lag = N / 4 * t + 4 * step;
    return uint4{table.lags(wave, slot, lag), table.lags(wave, slot + 8, lag), table.lags(wave, slot, lag + 2),
                 table.lags(wave, slot + 8, lag + 2)};
  });
}

// Column g of MMA tile n is column (N/8) (g / 2) + 2 n + g % 2 of the half grid.
template <int N>
__device__ __forceinline__ void block_make_output_constants(OutputConstants<N>& to, CosineTable<N> table) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, [&](Wave wave, int step, int tiles) {
    int const slot = 16 * step + 2 * t, column = N / 8 * (g / 2) + 4 * tiles + g % 2;
    return uint4{table.slots(wave, slot, column), table.slots(wave, slot + 8, column),
                 table.slots(wave, slot, column + 2), table.slots(wave, slot + 8, column + 2)};
  });
}

template <int N>
__device__ __forceinline__ void block_make_lag_constants(LagConstants<N>& to, CosineTable<N> table) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, [&](Wave wave, int step, int tiles) {
    int const slot = 16 * step + 2 * t, lag = 16 * tiles + g;
    return uint4{table.lag_slots(wave, slot, lag), table.lag_slots(wave, slot + 8, lag),
                 table.lag_slots(wave, slot, lag + 8), table.lag_slots(wave, slot + 8, lag + 8)};
  });
}

}  // namespace faltung::long_conv::cuda::spectral
