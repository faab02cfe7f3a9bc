// Staging of square grids of 16 points, 8 images and their filter of 31 x 31 taps, by 128 threads that each know their
// places: what product.cuh does for any shape takes a third of the instructions of such small kernels.
#pragma once
#include "long_conv/cuda/toeplitz/product.cuh"

namespace faltung::long_conv::cuda::toeplitz {

struct WholeGrid {
  static constexpr int extent = 16, taps = 2 * extent - 1, chunk = 8;  // of 16 bytes
  static constexpr int image_chunks = extent * extent / chunk, row_chunks = extent / chunk;
  static constexpr int above = rows_above * row_chunks, margins = (rows_above + rows_below) * row_chunks;
};

// As block_stage_images.
template <typename Element>
__device__ __forceinline__ void block_stage_whole_images(Element* to, Tensor<Element const*> const& x,
                                                         Layout const& layout, std::int64_t b, int count,
                                                         std::int64_t c) {
  using G = WholeGrid;
  constexpr int at_once = threads<1> / G::image_chunks;
  int const image = threadIdx.x / G::image_chunks, place = threadIdx.x % G::image_chunks * G::chunk;
  Element const* const from = x.data + (b + image) * x.batch + c * x.channel + place;
#pragma unroll
  for (int i = 0; i < images; i += at_once) {
    Element* const target = to + (image + i) * layout.image + place;
    if (image + i < count)
      thread_copy_async(target, from + i * x.batch);
    else
      *reinterpret_cast<uint4*>(target) = uint4{};
  }
}

// As block_stage_margins.
template <typename Element>
__device__ __forceinline__ void block_stage_whole_margins(Element* to, Layout const& layout) {
  using G = WholeGrid;
  constexpr int per_image = threads<1> / images;
  Element* const image = to + threadIdx.x / per_image * layout.image;
#pragma unroll
  for (int i = threadIdx.x % per_image; i < G::margins; i += per_image)
    *reinterpret_cast<uint4*>(image + (i < G::above ? i : i + G::image_chunks) * G::chunk) = uint4{};
}

// As block_stage_filter.
template <typename Element>
__device__ __forceinline__ void block_stage_whole_filter(Element* to, Element const* k, int sign,
                                                         Layout const& layout) {
  using G = WholeGrid;
  constexpr int filter_row = 2 * G::extent, row_step = threads<1> / filter_row, unroll = filter_row / row_step;
  int const e = threadIdx.x % filter_row, first = threadIdx.x / filter_row;
  Element const* const from = k + (sign > 0 ? first * G::taps + G::taps - 1 - e : (G::taps - 1 - first) * G::taps + e);
  int const step = sign * row_step * G::taps;
  Element value[unroll] = {};
  if (e < G::taps) {
#pragma unroll
    for (int u = 0; u + 1 < unroll; ++u) value[u] = from[u * step];
    if (first + (unroll - 1) * row_step < G::taps) value[unroll - 1] = from[(unroll - 1) * step];
  }
  Element* const target = to + first * filter_row + e;
#pragma unroll
  for (int u = 0; u < unroll; ++u) target[u * row_step * filter_row] = value[u];
  if (e + 1 < filter_row)
#pragma unroll
    for (int u = 0; u < unroll; ++u) target[layout.filter_copy + u * row_step * filter_row + 1] = value[u];
  // The spare lags beyond those 32 rows.
  static_assert(G::taps + spare_lags == filter_row + 2 && row_step >= 2);
  if (first < 2) {
    target[unroll * row_step * filter_row] = Element(0.f);
    if (e + 1 < filter_row) target[layout.filter_copy + unroll * row_step * filter_row + 1] = Element(0.f);
  }
}

}  // namespace faltung::long_conv::cuda::toeplitz
