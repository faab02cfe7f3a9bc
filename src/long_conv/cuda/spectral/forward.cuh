// y of one channel and eight images per turn of a persistent block; dx is the same with the transposed shape. Two
// phases between barriers: back to the grid with the rows of the turn before, rows of x and of the filter to
// frequencies, and the next filter staged; then products along the rows. Of the spectrum a warp takes back what it put,
// so that the first of these runs without a barrier from the stores of one turn to the loads of the next.
#pragma once
#include "long_conv/cuda/spectral/product.cuh"
#include "long_conv/cuda/spectral/whole_filter.cuh"

namespace faltung::long_conv::cuda::spectral {

// A block's turns: groups of images that share a filter, channel by channel.
struct Turn {
  int channel, group;
  __device__ __forceinline__ void advance(int groups) {
    if (++group == groups) {
      group = 0;
      ++channel;
    }
  }
};

__device__ __forceinline__ int group_count(Shape const& shape) {
  return (int(shape.batch) + shape.images_per_filter - 1) / shape.images_per_filter;
}

// The turns of the block, for whose first the warp's state is made.
__device__ __forceinline__ void warp_begin_turns(TurnState& state, Shape const& shape) {
  int const groups = group_count(shape);
  std::int64_t const items = shape.channels * groups;
  int const first = int(items * blockIdx.x / gridDim.x);
  warp_write([&] {
    state.count = int(items * (blockIdx.x + 1) / gridDim.x) - first;
    state.former_b = -1;
    state.former_channel = -1;
    state.parity = 0;
    state.channel = first / groups;
    state.group = first % groups;
  });
}

template <typename Args>
__device__ __forceinline__ void thread_prefetch_turns(Args const& p, Turn turn, int count) {
  Shape const& shape = p.shape;
  bool const one_filter = shape.images_per_filter > 1;
  if (count > 0) thread_prefetch_images(p.x, shape, turn.group * shape.images_per_filter, turn.channel);
  if (count > 1) {
    Turn later = turn;
    later.advance(group_count(shape));
    if (later.channel != turn.channel || !one_filter)
      thread_prefetch_filter(p.k, shape, one_filter ? 0 : later.group, later.channel);
  }
}

// The filter of a turn.
template <typename Args>
__device__ __forceinline__ auto filter_of(Args const& p, Turn turn) {
  return p.k.data + (p.shape.images_per_filter > 1 ? 0 : turn.group) * p.k.batch + turn.channel * p.k.channel;
}

template <typename Element, int warps>
__device__ __forceinline__ int warp_normalise(std::uint32_t const (&maxima)[warps]) {
  int const lane = thread_lane();
  return normalising_exponent<Element>(warp_max(lane < warps ? maxima[lane] : 0));
}

// The spectrum of a filter from rows that the warp has staged.
template <int N, typename Element, typename Staged>
__device__ __forceinline__ void warp_transform_filter(std::uint32_t* spectrum, LowSlots<N, Element>& low,
                                                      std::uint32_t const* filter,
                                                      FilterConstants<N, Element> const& constants, int exponent) {
  int const lane = thread_lane(), t = lane % 4, row = thread_warp() * Plan<N>::rows_per_warp + lane / 4;
  LaneTaps<N> taps;
#pragma unroll
  for (int i = 0; i < N / 32; ++i) {
    int const chunk = t * (N / 32) + i;
    auto const load = [&](std::uint32_t* to, int at) {
      uint4 const words = *reinterpret_cast<uint4 const*>(filter + row * N + 4 * filter_chunk<N>(row, at));
      to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
    };
    load(taps.positive + 4 * i, chunk);
    load(taps.negative + 4 * i, chunk + N / 8);
  }
  warp_transform_taps<N, Element, Staged>(spectrum, low, taps, constants, exponent);
}

// `plain`: whole aligned rows in and out, no shortcut. `whole`: filters of whole_filter.cuh.
template <int N, bool plain, bool whole, typename Element, typename Filter>
__global__ __launch_bounds__(Plan<N>::threads, Plan<N>::blocks) void forward_kernel(
    __grid_constant__ ForwardKernelArgs<Element, Filter> const p) {
  using P = Plan<N>;
  constexpr bool wide = !std::is_same_v<Element, Filter>;
  static_assert(!(whole && wide));
  static_assert(!wide || std::is_same_v<Element, __nv_bfloat16>);  // halves of the filter would cost fp16 its bound
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto& shared = *reinterpret_cast<Shared<N, Element>*>(dynamic_shared);
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
    int const warp = thread_warp(), image = warp / P::warps_per_image, first_row = warp % P::warps_per_image * 32;
    int const former_channel = state.former_channel;
    if (int const b = state.former_b; b >= 0) {
      HalfGrid<N> sums = {};
      warp_invert_rows<N, Element>(sums, shared.spectrum, shared.output_constants, image, first_row);
      constexpr int log2_N = N == 64 ? 6 : 5;
      warp_store_grid<N, plain>(sums, p, b, former_channel, first_row,
                                -state.image_exponent - state.filter_exponent - filter_headroom - log2_N);
    }
    if (i == state.count) break;
    bool const one_filter = shape.images_per_filter > 1;  // of a channel
    Turn turn{state.channel, state.group};
    if (i >= 0) {
      int const b = turn.group * shape.images_per_filter + image;
      bool const present = image < shape.images_per_filter && b < int(shape.batch);
      Rows<N> rows = {};  // else the registers would be live from one turn to the next
      if (present) warp_load_rows<N, plain>(rows, p.x, shape, b, turn.channel, first_row);
      if (turn.channel != former_channel || !one_filter) {
        LaneTaps<N> taps;
        if constexpr (whole) {
          taps = warp_read_taps<N>(shared.filter, filter_of(p, turn), shape.rows.sign);
          std::uint32_t const most = warp_magnitude<N, Element>(taps);
          warp_write([&] { shared.filter_maxima[0][warp] = most; });
          __syncthreads();
        }
        int const exponent = warp_normalise<Element>(shared.filter_maxima[whole ? 0 : state.parity]);
        warp_write([&] { state.filter_exponent = exponent; });
        if constexpr (whole)
          warp_transform_taps<N, Element, Element>(shared.filter_spectrum, shared.low, taps, shared.filter_constants,
                                                   exponent);
        else
          warp_transform_filter<N, Element, std::conditional_t<wide, __half, Element>>(
              shared.filter_spectrum, shared.low, shared.filter, shared.filter_constants, wide ? 0 : exponent);
      }
      if (present) {  // the rows of a missing image spoil no others
        std::uint32_t most = warp_magnitude<N, Element>(rows);
        if constexpr (P::warps_per_image > 1) {
          warp_write([&] { shared.image_maxima[warp] = most; });
          image_barrier<N>(image);
          most = max(most, shared.image_maxima[warp ^ 1]);
        }
        int const exponent = normalising_exponent<Element>(most);
        warp_write([&] { state.image_exponent = exponent; });
        thread_fold<N, Element>(rows, exponent);
#pragma unroll 1
        for (int tile = 0; tile < P::slot_tiles; ++tile) {
          Tile re[4] = {}, im[4] = {};
          if (tile == P::direct_tiles) thread_negate_even<N>(rows);
          warp_transform_rows<N, Element>(re, im, rows, shared.input_constants, tile % P::direct_tiles,
                                          tile >= P::direct_tiles);
          warp_store_spectrum<N>(shared.spectrum, shared.low, re, im, tile, image, first_row);
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
    bool const fresh = i + 1 < state.count && (i < 0 || turn.channel != state.former_channel || !one_filter);
    if (fresh && !whole) {
      int const parity = state.parity ^ 1;
      warp_write([&] { state.parity = parity; });  // also: the rows of the filter before have been read
      std::uint32_t* const maximum = &shared.filter_maxima[parity][warp];
      if constexpr (wide)
        warp_measure_filter<N>(maximum, filter_of(p, turn), p.k, shape);
      else
        warp_stage_filter<N>(shared.filter, maximum, filter_of(p, turn), p.k, shape);
    }
    if constexpr (wide || whole) warp_write([&] { state.fresh = fresh; });
    __syncthreads();

    if constexpr (wide)
      if (state.fresh)
        warp_stage_wide_filter<N>(shared.filter, warp_normalise<Element>(shared.filter_maxima[state.parity]),
                                  filter_of(p, {state.channel, state.group}), p.k, shape);
    if constexpr (whole)
      if (state.fresh) block_copy_filter<N>(shared.filter, filter_of(p, {state.channel, state.group}));
    thread_prefetch_turns(p, {state.channel, state.group}, state.count - i - 1);
    if (i >= 0)
#pragma unroll 1
      for (int pair = thread_warp(); pair < N / 2; pair += P::warps)
        if constexpr (std::is_same_v<Element, __half>) {
          if (pair == 0)
            warp_multiply_low_slots<N>(shared.spectrum, shared.filter_spectrum, shared.low);
          else
            warp_multiply_slots<N>(shared.spectrum, shared.filter_spectrum, pair);
        } else {
          warp_multiply_slots<N>(shared.spectrum, shared.filter_spectrum, pair);
        }
    if constexpr (whole) thread_wait_for_copies();
    __syncthreads();
  }
}

}  // namespace faltung::long_conv::cuda::spectral
