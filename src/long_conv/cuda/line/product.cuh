// y or dx of one axis by direct products: y[16 i + r] = sum over tiles e of T(i - e) x[16 e ..], where the Toeplitz
// matrix T(d) holds the taps of lags 16 d - 15 .. 16 d + 15. In an MMA T(d) is the 16 x 16 operand and the 8 columns
// are images, or stretches of one, all at the same relative place. A warp holds the sums of 8 tiles of each column and
// walks the input from the last tile that has a tap to the first: a step loads one tile of input and one matrix, whose
// seven predecessors are still in registers.
#pragma once
#include "cuda/element.cuh"
#include "cuda/grid.cuh"
#include "cuda/half.cuh"
#include "cuda/mma.cuh"
#include "long_conv/cuda/line/args.hpp"
#include "long_conv/cuda/line/staging.cuh"

namespace faltung::long_conv::cuda::line {

using namespace faltung::cuda;

// Of a block and of a thread: three such blocks fit a multiprocessor.
inline constexpr int most_threads = 256, product_registers = 80;

// x[b, c] for `count` images from b, in chunks; what is no point of theirs is zero.
template <typename Element>
__device__ __forceinline__ void block_stage_chunks(Element* to, Tensor<Element const*> const& x, Shape const& shape,
                                                   ProductLayout const& layout, std::int64_t b, int count,
                                                   std::int64_t c) {
  constexpr int pieces = chunk / 8;  // of 16 bytes
  int const extent = shape.axis.extent, points = chunk * shape.chunks();
  Element const* from = x.data + b * x.batch + c * x.channel;
  if (x.vectors) {
    for (int p = threadIdx.x; p < points / 8; p += blockDim.x) {
      Element const* source = from + 8 * p;
      Element* target = to + (p / pieces + 1) * chunk_stride + p % pieces * 8;
      int const present = 8 * p < extent ? count : 0;
#pragma unroll
      for (int image = 0; image < columns; ++image) {
        if (image < present)
          thread_copy_async(target, source);
        else if (image < shape.images())
          *reinterpret_cast<uint4*>(target) = uint4{};
        source += x.batch, target += layout.image;
      }
    }
    return;
  }
  for (int image = 0; image < shape.images(); ++image, from += x.batch) {
    Element* const target = to + image * layout.image + chunk_stride;
    int const most = image < count ? extent : 0;
    block_stage(
        points, [&](int i, bool) { return i < most ? from[i * x.column] : Element(0.f); },
        [&](int i, Element value) { target[i / chunk * chunk_stride + i % chunk] = value; });
  }
}

// Zeros before, between and behind the images.
template <typename Element>
__device__ __forceinline__ void block_stage_zeros(Element* to, Shape const& shape, ProductLayout const& layout) {
  int const between = layout.image - shape.chunks() * chunk_stride, pieces = between / 8;
  for (int image = 0; image <= shape.images(); ++image) {
    // The last one is a chunk of zeros alone, and what lies between the images begins behind their chunks.
    Element* const target = to + image * layout.image - (image ? between - chunk_stride : 0);
    for (int p = threadIdx.x; p < (image ? pieces : chunk_stride / 8); p += blockDim.x)
      *reinterpret_cast<uint4*>(target + 8 * p) = uint4{};
  }
}

// The taps by falling lag, twice: the second copy is shifted by one, so that a pair of lags of either parity is one
// aligned word. A filter in fp32 has the parts hi and lo behind each other.
template <typename Element, typename Tap>
__device__ __forceinline__ void block_stage_taps(Element* to, Tap const* k, std::int64_t stride, LagAxis const& axis,
                                                 ProductLayout const& layout) {
  int const count = layout.copy - 32;
  auto const put = [&](int e, Tap tap) {
    Element* at = to + e;
    if constexpr (sizeof(Tap) == sizeof(Element)) {
      at[0] = at[layout.copy + 1] = tap;
    } else {
      Element const high = rounded<Element>(tap);
      float const rest = tap - widened(high);
      at[0] = at[layout.copy + 1] = high;
      at += layout.filter;
      at[0] = at[layout.copy + 1] = rounded<Element>(isfinite(rest) ? rest : 0.f);
    }
  };
  if (axis.circular) {
    block_stage(
        count,
        [&](int e, bool inside) {
          std::int64_t const m = inside ? axis.tap(layout.top - e) : -1;
          return m >= 0 ? k[m * stride] : Tap(0.f);
        },
        put);
    return;
  }
  int const lags = axis.high - axis.low + 1, first = layout.top - axis.low;  // of falling lags, what is left below
  std::int64_t const step = -axis.sign * stride;
  Tap const* const from = k + (axis.centre + axis.sign * layout.top) * stride;
  block_stage(
      count, [&](int e, bool) { return unsigned(first - e) < unsigned(lags) ? from[e * step] : Tap(0.f); }, put);
}

// Adds to a chunk of each column the products with chunks `last` down to `first` behind it, in this order and tile by
// tile from the last: `taps` is the filter by falling lag from `top`, twice, and input(m) the lane's place in chunk m
// of its column.
//
// Rows and K of an MMA are permuted alike: row n of the upper half is point 4 (n / 2) + n % 2 of a tile, of the lower
// half that + 2. So a lane's input of a tile is one access of 8 bytes, 4 (lane % 4) points into it, and T(d) is three
// words: of the lags L, L - 1 with L = 16 d + 4 (g / 2) + g % 2 - 4 t on the diagonal, L + 2 below and L - 2 above.
template <typename Element, typename Input>
__device__ __forceinline__ void warp_chunk_product(float (&sums)[tiles][4], Element const* taps, int copy, int top,
                                                   int first, int last, Input const& input) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  std::uint32_t const* words = reinterpret_cast<std::uint32_t const*>(taps + (g & 1 ? 0 : copy)) +
                               ((top + 1 - (4 * (g / 2) + g % 2 - 4 * t)) >> 1) + 8 * tiles * last;
  auto const load = [&](std::uint32_t(&matrix)[3], int d) {
#pragma unroll
    for (int i = 0; i < 3; ++i) matrix[i] = words[-8 * d + (i == 2 ? 1 : -i)];
  };
  std::uint32_t ring[tiles][3];  // T(d) in slot d mod 8
#pragma unroll
  for (int i = 0; i < tiles - 1; ++i) load(ring[i + 1], i - tiles + 1);
  for (int m = last; m >= first; --m) {
    Element const* const from = input(m);
#pragma unroll
    for (int u = 0; u < tiles; ++u) {
      load(ring[u], u);
      uint2 const b = *reinterpret_cast<uint2 const*>(from + tile * (tiles - 1 - u));
#pragma unroll
      for (int i = 0; i < tiles; ++i) {
        auto const& a = ring[(i + u + 1) % tiles];
        warp_mma<Element>(sums[i], a[0], a[1], a[2], a[0], b.x, b.y);
      }
    }
    words -= 8 * tiles;
  }
}

// Chunks of fp32 to begin with; from(column) is the start of the column's chunk, of `most` points that are there.
template <typename From>
__device__ __forceinline__ void warp_load_sums(float (&sums)[tiles][4], From const& from) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4, point = 4 * (g / 2) + g % 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    auto const [at, most] = from(2 * t + i);
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (int const place = tile * n + 2 * half + point; place < most) sums[n][2 * half + i] = at[place];
  }
}

// Adds scale x; from(column) is the start of the column's chunk in shared memory.
template <typename Element, typename From>
__device__ __forceinline__ void warp_add_shortcut(float (&sums)[tiles][4], float scale, From const& from) {
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    Element const* const x = from(2 * t + i) + 4 * (g / 2) + g % 2;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      sums[n][i] += scale * widened(x[tile * n]);
      sums[n][2 + i] += scale * widened(x[tile * n + 2]);
    }
  }
}

// A chunk of a lane's column to the image at `to`: points `first` and on, counted from its end where `reversed`.
template <bool reversed, typename Element>
__device__ __forceinline__ void warp_store_chunk(float const (&sums)[tiles][4], Element* to, Tensor<Element*> const& y,
                                                 bool present, int first, int extent) {
  first += 4 * (thread_lane() % 4);
  uint2 values[tiles];
#pragma unroll
  for (int n = 0; n < tiles; ++n)
    values[n] = {warp_transpose(pack<Element>(sums[n][0], sums[n][1])),
                 warp_transpose(pack<Element>(sums[n][2], sums[n][3]))};
  if (!present) return;
  if (y.vectors) {
    Element* const at = to + (reversed ? extent - 4 - first : first);
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      if (first + tile * n >= extent) break;
      if constexpr (reversed)
        *reinterpret_cast<uint2*>(at - tile * n) = {swap_halves(values[n].y), swap_halves(values[n].x)};
      else
        *reinterpret_cast<uint2*>(at + tile * n) = values[n];
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
    auto const* const elements = reinterpret_cast<Element const*>(&values[n]);
    int const point = first + tile * n;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (point + i < extent) to[(reversed ? extent - 1 - point - i : point + i) * y.column] = elements[i];
  }
}

// Chunk `own` + (segment of the column) of y.
template <typename Element, typename Tap>
__device__ __forceinline__ void warp_product(ProductArgs<Element, Tap> const& p, Element const* x,
                                             Element const* filter, std::int64_t b, int count, std::int64_t c,
                                             int own) {
  constexpr int parts = sizeof(Tap) / sizeof(Element);
  Shape const& shape = p.shape;
  ProductLayout const& layout = p.layout;
  int const lane = thread_lane(), g = lane / 4, t = lane % 4;
  int const chunks = shape.chunks(), segments = shape.segments();
  auto const chunk_of = [&](int column) { return own + shape.segment_of(column); };
  auto const place = [&](int image, int at) {
    return x + image * layout.image + (min(max(at, -1), chunks) + 1) * chunk_stride;
  };
  float sums[tiles][4] = {};
  if (p.sums.data)
    warp_load_sums(sums, [&](int column) {
      int const image = shape.image_of(column), start = chunk_of(column) * chunk;
      struct {
        float const* at;
        int most;
      } const place{p.sums.data + (b + image) * p.sums.batch + c * p.sums.channel + start,
                    image < count ? shape.axis.extent - start : 0};
      return place;
    });
  int const first = max(layout.first_chunk, 1 - segments - own), last = min(layout.last_chunk, chunks - 1 - own);
  int const mine = chunk_of(g);
#pragma unroll 1
  for (int part = 0; part < parts && first <= last; ++part)
    warp_chunk_product(sums, filter + part * layout.filter, layout.copy, layout.top, first, last,
                       [&](int m) { return place(shape.image_of(g), mine + m) + 4 * t; });
  if (p.shortcut.data)
    warp_add_shortcut<Element>(sums, thread_load<float>(p.shortcut.data, p.shortcut.dtype, c * p.shortcut.stride),
                               [&](int column) { return place(shape.image_of(column), chunk_of(column)); });
  warp_store_chunk<false>(sums, p.to.data + (b + shape.image_of(g)) * p.to.batch + c * p.to.channel, p.to,
                          shape.image_of(g) < count, mine * chunk, shape.axis.extent);
}

// One channel and up to 8 images at a time.
template <typename Element, typename Tap>
__device__ __forceinline__ void block_product(ProductArgs<Element, Tap> const& p, unsigned char* shared,
                                              std::int64_t channel, std::int64_t channel_step) {
  Shape const& shape = p.shape;
  ProductLayout const& layout = p.layout;
  Element* const x = reinterpret_cast<Element*>(shared);
  Element* const filter = x + layout.input;
  block_stage_zeros(x, shape, layout);
  grid_release_successor();
  grid_wait_for_predecessor();

  int const segments = shape.segments(), groups = (shape.chunks() + segments - 1) / segments;
  int const warps = int(blockDim.x) / 32;
  for (std::int64_t c = channel; c < shape.channels; c += channel_step)
    for (std::int64_t b = blockIdx.y * std::int64_t(shape.images()); b < shape.batch;
         b += gridDim.y * std::int64_t(shape.images())) {
      int const count = int(min(std::int64_t(shape.images()), shape.batch - b));
      block_stage_chunks(x, p.from, shape, layout, b, count, c);
      block_stage_taps(filter, p.k.data + b * p.k.batch + c * p.k.channel, p.k.column, shape.axis, layout);
      thread_wait_for_copies();
      __syncthreads();
      for (int turn = 0; turn * warps < groups; ++turn) {
        int const item = item_of(turn, thread_warp(), warps), group = shape.axis.low >= 0 ? groups - 1 - item : item;
        if (item < groups) warp_product(p, x, filter, b, count, c, group * segments);
      }
      __syncthreads();
    }
}

template <typename Element, typename Tap>
__global__ __launch_bounds__(most_threads, 3) void product_kernel(__grid_constant__ ProductArgs<Element, Tap> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  block_product(p, shared, blockIdx.x, gridDim.x);
}

}  // namespace faltung::long_conv::cuda::line
