// dk of one axis: for a block of 16 points of dy and one of 8 points of x, G[r, s] = sum of dy[16 i + r] x[16 i - 8
// delta + s] over images and blocks i belongs to lag 8 delta + r - s. An MMA has r as its rows, s as its columns, and
// as K 8 rows of the operands, which are images or stretches of one, times two neighbouring blocks. A warp keeps 14
// values of delta and walks along the rows; pieces of x stay in a ring of registers for the values that meet them
// later.
#pragma once
#include "cuda/grid.cuh"
#include "long_conv/cuda/line/product.cuh"
#include "long_conv/cuda/line/staging.cuh"
#include "long_conv/cuda/toeplitz/filter_gradient.cuh"
#include "long_conv/cuda/toeplitz/store_gradient.cuh"

namespace faltung::long_conv::cuda::line {

using namespace faltung::cuda;

// Of a block and, as it is compiled, of a thread.
inline constexpr int most_gradient_threads = 512, gradient_registers = 128;

// Rows of 8 * pieces points, `segments` of them an image, zeros behind its points and in images that there are not.
template <typename Element>
__device__ __forceinline__ void block_stage_rows(Element* to, int row_stride, Tensor<Element const*> const& x,
                                                 Shape const& shape, int pieces, std::int64_t b, int count,
                                                 std::int64_t c) {
  int const extent = shape.axis.extent, log2_segments = 3 - shape.log2_images, points = pieces * piece;
  Element const* const from = x.data + b * x.batch + c * x.channel;
  if (x.vectors) {
    for (int p = threadIdx.x; p < pieces; p += blockDim.x) {
      Element* target = to + p * piece;
#pragma unroll
      for (int row = 0; row < columns; ++row, target += row_stride) {
        int const image = row >> log2_segments, point = (row & (shape.segments() - 1)) * points + p * piece;
        if (image < count && point < extent)
          thread_copy_async(target, from + image * x.batch + point);
        else
          *reinterpret_cast<uint4*>(target) = uint4{};
      }
    }
    return;
  }
  for (int row = 0; row < columns; ++row) {
    int const image = row >> log2_segments, first = (row & (shape.segments() - 1)) * points;
    Element const* const source = from + image * x.batch + first * x.column;
    int const most = image < count ? extent - first : 0;  // may be negative
    block_stage(
        points, [&](int i, bool) { return i < most ? source[i * x.column] : Element(0.f); },
        [&](int i, Element value) { to[row * row_stride + i] = value; });
  }
}

// To L2, while this block works: the images of a block to come.
template <typename Element>
__device__ __forceinline__ void block_prefetch_images(Tensor<Element const*> const& x, int extent, std::int64_t b,
                                                      int count, std::int64_t c) {
  constexpr int line = 128 / sizeof(Element);
  if (!x.vectors) return;
  for (int i = threadIdx.x * line; i < extent; i += blockDim.x * line)
    for (int image = 0; image < count; ++image) thread_prefetch(x.data + (b + image) * x.batch + c * x.channel + i);
}

// The places of a lane in pieces of x: of a row that is a whole image as they come, with zeros around it.
template <bool whole>
class PieceWalk;
template <>
class PieceWalk<true> {
 public:
  // `row` begins behind its margin.
  __device__ __forceinline__ PieceWalk(std::uint32_t row, GradientLayout const&, Shape const&, int, std::uint32_t,
                                       int at)
      : at_(row + at * 2 * piece) {}
  __device__ __forceinline__ std::uint32_t operator()() const { return at_; }
  __device__ __forceinline__ void advance() { at_ += 4 * 2 * piece; }

 private:
  std::uint32_t at_;
};
// Rows of an image follow each other, a piece apart.
template <>
class PieceWalk<false> {
 public:
  __device__ __forceinline__ PieceWalk(std::uint32_t row, GradientLayout const& layout, Shape const& shape, int segment,
                                       std::uint32_t zeros, int at)
      : pieces_(layout.pieces), segments_(shape.segments()), zeros_(zeros) {
    int const ahead = floor_quotient(at, pieces_);
    segment_ = segment + ahead;
    left_ = (ahead + 1) * pieces_ - at;
    at_ = row + (at + ahead) * 2 * piece;
  }
  __device__ __forceinline__ std::uint32_t operator()() const {
    return unsigned(segment_) < unsigned(segments_) ? at_ : zeros_;
  }
  __device__ __forceinline__ void advance() {
    at_ += 4 * 2 * piece, left_ -= 4;
    if (left_ <= 0) left_ += pieces_, ++segment_, at_ += 2 * piece;
  }

 private:
  int pieces_, segments_, segment_, left_;
  std::uint32_t zeros_, at_;
};

// Adds the sums of a group's lags over a share of the points to sums[lag - first lag of the group].
template <typename Element, bool whole>
__device__ __forceinline__ void warp_line_gradient(float* sums, Element const* dy, Element const* x,
                                                   Element const* zeros, Shape const& shape,
                                                   GradientLayout const& layout, int group, int share) {
  constexpr int ring = 16, unroll = 4;
  int const lane = thread_lane(), segments = shape.segments(), pieces = layout.pieces;
  int const delta = layout.first_diagonal + group * diagonals, lag = piece * delta;
  // Steps of 32 points. The points of dy that meet a point of x at some lag of the group, in some row.
  int const before = (segments - 1) * pieces * piece;
  int const first = max(0, floor_quotient(lag - (piece - 1) - before, 4 * piece));
  int const last =
      min(pieces / 4, floor_quotient(shape.axis.extent - 1 + lag + piece * (diagonals - 1) + 15, 4 * piece) + 1);
  int const steps = max(0, last - first);
  int const begin = first + steps * share / layout.shares, end = first + steps * (share + 1) / layout.shares;
  // Lane l points at row l % 8 of matrix l / 8, matrices being neighbouring pieces. What meets dy are pairs of pieces,
  // the second of them two behind the first, each in neighbouring registers: every piece is loaded twice.
  int const row = lane % 8, matrix = lane / 8;
  std::uint32_t dy_at = shared_address(dy + row * layout.dy_row + (4 * begin + matrix) * piece);
  std::uint32_t const x_row = shared_address(x + row * layout.x_row + (whole ? margin_pieces * piece : 0)),
                      zeros_at = shared_address(zeros);
  int const at = 4 * begin - delta - ring + 1 + matrix / 2 + matrix % 2 * 2, segment = row & (segments - 1);
  PieceWalk<whole> near(x_row, layout, shape, segment, zeros_at, at),
      far(x_row, layout, shape, segment, zeros_at, at + 2);
  std::uint32_t held[ring][2];  // pieces 4 step - delta - ring + 1 + i and the one two behind it in slot i + 4 step
  auto const load = [&](int slot) {
    warp_load_transposed(held[slot], near());
    warp_load_transposed(held[slot + 2], far());
    near.advance(), far.advance();
  };
  float blocks[diagonals][4] = {};
#pragma unroll
  for (int i = 0; i < ring - 4; i += 4) load(i);
  for (int step = begin; step < end; step += unroll) {
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (step + u >= end) break;
      std::uint32_t a[4];
      warp_load_transposed(a, dy_at);
      dy_at += 4 * 2 * piece;
      load((ring - 4 + 4 * u) % ring);
#pragma unroll
      for (int e = 0; e < diagonals; ++e) {
        auto const& b = held[(ring - 1 - e + 4 * u) % ring];
        warp_mma<Element>(blocks[e], a[0], a[1], a[2], a[3], b[0], b[1]);
      }
    }
  }
  constexpr int width = 4;  // lags of a lane: 8 beta + residue
  static_assert(diagonals == toeplitz::diagonals<width>);
  float lag_sums[width];
  toeplitz::warp_sum_diagonals<width>(blocks, lag_sums);
  int const t = lane % 4, residue = (lane / 4 - 2 * t) & 7, beta = (t & 1) * 2 * width + t / 2 * width;
#pragma unroll
  for (int i = 0; i < width; ++i) sums[piece * (beta + i) + residue] += lag_sums[i];
}

// dk of one filter at a time, its images by eights. Neighbouring groups share lags: even and odd ones have sums of
// their own, and so have shares of the points.
template <typename Element, typename Tap>
__device__ __forceinline__ void block_filter_gradient(GradientArgs<Element, Tap> const& p, unsigned char* shared,
                                                      std::int64_t channel, std::int64_t channel_step) {
  Shape const& shape = p.shape;
  GradientLayout const& layout = p.layout;
  Element* const dy = reinterpret_cast<Element*>(shared);
  Element* const x = dy + layout.x;
  Element* const zeros = dy + layout.zeros;
  float* const sums = reinterpret_cast<float*>(zeros + piece);
  bool const whole = shape.segments() == 1;
  if (threadIdx.x == 0) *reinterpret_cast<uint4*>(zeros) = uint4{};
  if (whole)
    for (int i = threadIdx.x; i < columns * 2 * margin_pieces; i += blockDim.x) {
      int const row = i % columns, at = i / columns;
      *reinterpret_cast<uint4*>(x + row * layout.x_row + (at < margin_pieces ? at : at + layout.pieces) * piece) =
          uint4{};
    }
  grid_release_successor();
  grid_wait_for_predecessor();

  int const warps = int(blockDim.x) / 32, arrays = 2 * layout.shares, items = layout.groups * layout.shares;
  std::int64_t const samples = shape.per_sample ? shape.batch : 1, images_in_all = shape.per_sample ? 1 : shape.batch;
  for (std::int64_t c = channel; c < shape.channels; c += channel_step)
    for (std::int64_t sample = blockIdx.y; sample < samples; sample += gridDim.y) {
      for (int i = threadIdx.x; i < arrays * layout.sums; i += blockDim.x) sums[i] = 0.f;
      for (std::int64_t first = 0; first < images_in_all; first += shape.images()) {
        std::int64_t const b = sample + first;
        int const count = int(min(std::int64_t(shape.images()), images_in_all - first));
        block_stage_rows(dy, layout.dy_row, p.dy, shape, layout.pieces, b, count, c);
        block_stage_rows(x + (whole ? margin_pieces * piece : 0), layout.x_row, p.x, shape, layout.pieces, b, count, c);
        if (c + p.ahead < shape.channels) {
          block_prefetch_images(p.dy, shape.axis.extent, b, count, c + p.ahead);
          block_prefetch_images(p.x, shape.axis.extent, b, count, c + p.ahead);
        }
        thread_wait_for_copies();
        __syncthreads();
        for (int turn = 0; turn * warps < items; ++turn) {
          int const item = item_of(turn, thread_warp(), warps);
          if (item >= items) continue;
          int const group = item % layout.groups, share = item / layout.groups;
          float* const to = sums + (2 * share + group % 2) * layout.sums + group * lags_per_group;
          if (whole)
            warp_line_gradient<Element, true>(to, dy, x, zeros, shape, layout, group, share);
          else
            warp_line_gradient<Element, false>(to, dy, x, zeros, shape, layout, group, share);
        }
        __syncthreads();
      }
      for (int i = threadIdx.x; i < layout.sums; i += blockDim.x) {
        float sum = sums[i];
        for (int array = 1; array < arrays; ++array) sum += sums[array * layout.sums + i];
        sums[i] = sum;
      }
      __syncthreads();
      toeplitz::block_store_filter_gradient(p.dk.data + sample * p.dk.batch + c * p.dk.channel, p.dk,
                                            sums - layout.first_lag(), 0,
                                            {{1, 0, 0, 1, 0, false}, shape.axis, shape.batch, shape.channels, columns});
      __syncthreads();
    }
}

template <typename Element, typename Tap>
__global__ __launch_bounds__(most_gradient_threads,
                             1) void gradient_kernel(__grid_constant__ GradientArgs<Element, Tap> const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  block_filter_gradient(p, shared, blockIdx.x, gridDim.x);
}

// dx and dk by neighbouring blocks: the loads of one overlap with the products of the other.
template <typename Element, typename Tap>
__global__ __launch_bounds__(most_gradient_threads,
                             1) void backward_kernel(__grid_constant__ ProductArgs<Element, Tap> const dx,
                                                     __grid_constant__ GradientArgs<Element, Tap> const dk) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (blockIdx.x % 2)
    block_product(dx, shared, blockIdx.x / 2, gridDim.x / 2);
  else
    block_filter_gradient(dk, shared, blockIdx.x / 2, gridDim.x / 2);
}

}  // namespace faltung::long_conv::cuda::line
