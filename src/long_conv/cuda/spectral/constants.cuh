// The DFT matrices as fragments in shared memory. With w(f) = pi (2f + 1) / 2N every angle is a multiple of pi / 4N: a
// block evaluates 8N cosines and looks the rest up.
//
// Columns are folded about the centre of the grid: column i < N/2 stands for i and N-1-i, at distance r = (N-1)/2 - i,
// angle w(f) r = (2f + 1)(N - 1 - 2i) pi / 4N. Column lags are folded about 0: lag l has angle w(f) l = (2f + 1) 2l pi
// / 4N, and lag 0 counts half, since it meets itself.
//
// At the mirrored frequency N - 1 - f the cosine of column i is the sine at f and the sine the cosine, both negated for
// even i; the cosine of lag l is that at f, negated for odd l, and the sine likewise for even l. So only frequencies
// below N/2 have constants, and even and odd lags are kept apart.
//
// The order of columns within a fragment is that in which a lane holds them: (N/8) t + 2i and on for lane t. Of lags a
// lane holds N/4, from (N/4) t on, the even ones first.
#pragma once
#include "cuda/half.cuh"
#include "long_conv/cuda/spectral/plan.hpp"

namespace faltung::long_conv::cuda::spectral {

using namespace faltung::cuda;

enum class Wave { cosine, sine };

// Where column lag 0 <= lag < N lies in its half of a row.
template <int N>
__host__ __device__ constexpr int lag_position(int lag) {
  constexpr int per_lane = N / 4;
  return lag / per_lane * per_lane + lag % 2 * (per_lane / 2) + lag % per_lane / 2;
}
template <int N>
__host__ __device__ constexpr int lag_at(int position) {
  constexpr int per_lane = N / 4;
  int const i = position % per_lane;
  return position / per_lane * per_lane + i % (per_lane / 2) * 2 + i / (per_lane / 2);
}

template <int N>
struct CosineTable {
  float const* values;  // cos(pi i / 4N), i < 8N
  int plane = 0;        // of the constants to be made: 0 the rounded value, 1 what it lacks
  int made = 0;         // fragments so far, by as many warps in turn

  __device__ __forceinline__ float at(Wave wave, int slot, int twice_distance) const {
    int const angle = (2 * slot + 1) * twice_distance - (wave == Wave::sine ? 2 * N : 0);
    return values[angle & (8 * N - 1)];
  }
  // cos and -sin; lag 0 meets itself.
  __device__ __forceinline__ float at_lag(Wave wave, int slot, int lag) const {
    float const value = at(wave, slot, 2 * lag);
    return wave == Wave::sine ? -value : lag == 0 ? 0.5f : value;
  }
  // Of the folded column, or of the one beside it in the same register.
  __device__ __forceinline__ std::uint32_t columns(Wave wave, int slot, int column) const {
    return pair(at(wave, slot, N - 1 - 2 * column), at(wave, slot, N - 3 - 2 * column));
  }
  __device__ __forceinline__ std::uint32_t slots(Wave wave, int slot, int column) const {
    return pair(at(wave, slot, N - 1 - 2 * column), at(wave, slot + 1, N - 1 - 2 * column));
  }
  __device__ __forceinline__ std::uint32_t lags(Wave wave, int slot, int position) const {
    return pair(at_lag(wave, slot, lag_at<N>(position)), at_lag(wave, slot, lag_at<N>(position + 1)));
  }
  // Of two neighbouring slots, without the folding at lag 0.
  __device__ __forceinline__ std::uint32_t lag_slots(Wave wave, int slot, int lag) const {
    float const sign = wave == Wave::sine ? -1.f : 1.f;
    return pair(sign * at(wave, slot, 2 * lag), sign * at(wave, slot + 1, 2 * lag));
  }
  __device__ __forceinline__ std::uint32_t pair(float low, float high) const {
    std::uint32_t const rounded = half_pair(low, high);
    if (plane == 0) return rounded;
    auto const [first, second] = __half22float2(reinterpret_cast<__half2 const&>(rounded));
    return half_pair(low - first, high - second);
  }
};

// `scratch` holds 8N floats. Ends with a barrier.
template <int N>
__device__ __forceinline__ CosineTable<N> block_make_cosines(void* scratch) {
  auto* const values = static_cast<float*>(scratch);
  for (int i = threadIdx.x; i < 8 * N; i += blockDim.x) values[i] = cospif(float(i) / (4 * N));
  __syncthreads();
  return {values};
}

// make(table, wave, outer, inner) -> a lane's fragment.
template <int N, typename Element, int outers, int inners, typename Make>
__device__ __forceinline__ void block_make_fragments(Fragments<Element, outers, inners>& to, CosineTable<N>& table,
                                                     Make const& make) {
  constexpr int count = planes<Element> * 2 * outers * inners;
  int const warps = blockDim.x / 32;
#pragma unroll 1
  for (int i = (threadIdx.x / 32 + warps - table.made % warps) % warps; i < count; i += warps) {
    int const inner = i % inners, outer = i / inners % outers, wave = i / (inners * outers) % 2;
    table.plane = i / (inners * outers * 2);
    to.store(table.plane, wave, outer, inner, threadIdx.x % 32,
             make(table, wave ? Wave::sine : Wave::cosine, outer, inner));
  }
  table.made += count;
}

template <int N, typename Constants>
__device__ __forceinline__ void block_make_input_constants(Constants& to, CosineTable<N>& cosines) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, cosines, [&](CosineTable<N> const& table, Wave wave, int tile, int step) {
    int const slot = 16 * tile + g, column = N / 8 * t + 4 * step;
    return uint4{table.columns(wave, slot, column), table.columns(wave, slot + 8, column),
                 table.columns(wave, slot, column + 2), table.columns(wave, slot + 8, column + 2)};
  });
}

template <int N, typename Constants>
__device__ __forceinline__ void block_make_filter_constants(Constants& to, CosineTable<N>& cosines) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, cosines, [&](CosineTable<N> const& table, Wave wave, int tile, int step) {
    int const slot = 16 * tile + g, position = N / 4 * t + 4 * step;
    return uint4{table.lags(wave, slot, position), table.lags(wave, slot + 8, position),
                 table.lags(wave, slot, position + 2), table.lags(wave, slot + 8, position + 2)};
  });
}

// Column g of MMA tile n is column (N/8) (g / 2) + 2 n + g % 2 of the half grid.
template <int N, typename Constants>
__device__ __forceinline__ void block_make_output_constants(Constants& to, CosineTable<N>& cosines) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, cosines, [&](CosineTable<N> const& table, Wave wave, int step, int tiles) {
    int const slot = 16 * step + 2 * t, column = N / 8 * (g / 2) + 4 * tiles + g % 2;
    return uint4{table.slots(wave, slot, column), table.slots(wave, slot + 8, column),
                 table.slots(wave, slot, column + 2), table.slots(wave, slot + 8, column + 2)};
  });
}

// The lag of column j of MMA tile n: neighbours are four apart among those of one parity, so that a lane's stores of
// them fall into different banks.
__host__ __device__ constexpr int lag_of_column(int parity, int n, int j) {
  return parity + 2 * (8 * n + j / 2 + 4 * (j % 2));
}

template <int N, typename Constants>
__device__ __forceinline__ void block_make_lag_constants(Constants& to, CosineTable<N>& cosines) {
  int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  block_make_fragments(to, cosines, [&](CosineTable<N> const& table, Wave wave, int parity_and_step, int tiles) {
    int const slot = 16 * (parity_and_step % (N / 32)) + 2 * t, parity = parity_and_step / (N / 32);
    int const lag = lag_of_column(parity, 2 * tiles, g), next = lag_of_column(parity, 2 * tiles + 1, g);
    return uint4{table.lag_slots(wave, slot, lag), table.lag_slots(wave, slot + 8, lag),
                 table.lag_slots(wave, slot, next), table.lag_slots(wave, slot + 8, next)};
  });
}

}  // namespace faltung::long_conv::cuda::spectral
