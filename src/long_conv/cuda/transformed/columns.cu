// Transforms of complex lines in the workspace: forward (filters, middle axes), back, and the last axis with the
// product in between, so that a spectrum of all axes is never stored.
#include <algorithm>

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/block_transform.cuh"
#include "long_conv/cuda/transformed/visit.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int images_per_sum = 16;  // no chain of sums over the batch is longer than this, twice

// The block's tile of lines: which plane, and where the thread's line begins.
struct Tile {
  std::uint32_t plane;
  std::int64_t offset;
  bool inside;

  template <typename Block>
  __device__ Tile(ComplexLines const& a, Block const& block) {
    plane = a.by_tiles.quotient(blockIdx.x);
    int const line = int(a.by_tiles.remainder(blockIdx.x, plane)) * block.lines() + block.line();
    inside = line < a.lines;
    offset = (inside ? line : 0) * a.line_stride;
  }
};

__device__ __forceinline__ bool holds(int point, int length, int head, int tail) {
  return point < head || point >= length - tail;
}

// elements: of those of a thread, the first half where the second half of the points holds nothing.
template <int elements, typename Real, typename Stored, typename Block>
__device__ __forceinline__ void load_points(Complex<Real>* v, Block const& block, Complex<Stored> const* from,
                                            std::int64_t stride, int head, int tail) {
#pragma unroll
  for (int q = 0; q < elements; ++q)
    v[q] = holds(block.index(q), block.length(), head, tail) ? converted<Real>(from[block.index(q) * stride])
                                                             : Complex<Real>{};
}

template <int elements, typename Real, typename Stored, typename Block>
__device__ __forceinline__ void store_points(Complex<Real> const* v, Block const& block, Complex<Stored>* to,
                                             std::int64_t stride, int head, int tail) {
#pragma unroll
  for (int q = 0; q < elements; ++q)
    if (holds(block.index(q), block.length(), head, tail)) to[block.index(q) * stride] = converted<Stored>(v[q]);
}

__device__ std::int64_t plane_offset(ComplexLines const& a, std::uint32_t plane) {
  auto const major = a.by_minor.quotient(plane);
  int const minor = int(a.by_minor.remainder(plane, major));
  int const position = minor < a.minor_head ? minor : a.minor_positions - a.minor_tail + (minor - a.minor_head);
  return major * a.major_stride + position * a.minor_stride;
}

template <typename Real, typename Stored, Lines layout, int log2_radix, int odd>
__global__ __launch_bounds__(most_threads<log2_radix, odd>) void transform_lines_kernel(
    __grid_constant__ ComplexLines const a, void const* from, void* to) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  BlockTransform<Real, layout, log2_radix, odd> const block(a.transform, shared);
  Tile const tile(a, block);
  std::int64_t const at = plane_offset(a, tile.plane) + tile.offset;
  Complex<Real> v[odd << log2_radix];
  load_points<odd << log2_radix>(v, block, static_cast<Complex<Real> const*>(from) + at, a.point_stride, a.head,
                                 a.tail);
  block.forward(v);
  if (tile.inside)
    store_points<odd << log2_radix>(v, block, static_cast<Complex<Stored>*>(to) + at, a.point_stride, block.length(),
                                    0);
}

template <typename Real, Lines layout, int log2_radix, int odd>
__global__ __launch_bounds__(most_threads<log2_radix, odd>) void restore_lines_kernel(
    __grid_constant__ ComplexLines const a, void* data) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  BlockTransform<Real, layout, log2_radix, odd> const block(a.transform, shared);
  Tile const tile(a, block);
  auto* const line = static_cast<Complex<Real>*>(data) + plane_offset(a, tile.plane) + tile.offset;
  Complex<Real> v[odd << log2_radix];
  load_points<odd << log2_radix>(v, block, line, a.point_stride, block.length(), 0);
  block.inverse(v);
  if (tile.inside) store_points<odd << log2_radix>(v, block, line, a.point_stride, a.head, a.tail);
}

// A tile of lines of one unit, for a share of its images.
template <typename Real, Lines layout, int log2_radix, int odd, int fixed, bool padded>
__global__ __launch_bounds__(most_threads<log2_radix, odd, layout, fixed>,
                             fixed     ? (log2_radix == 4 ? 512 : 768) / most_threads<log2_radix, odd, layout, fixed>
                             : odd > 1 ? 2
                                       : 1) void multiply_lines_kernel(__grid_constant__ LineProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  constexpr int all = odd << log2_radix, held = padded ? all / 2 : all;
  auto const& a = p.lines;
  BlockTransform<Real, layout, log2_radix, odd, fixed> const block(a.transform, shared);
  Tile const tile(a, block);  // its plane is the unit
  auto const* const filter = static_cast<Complex<Real> const*>(p.filters) + tile.plane * p.filter_stride + tile.offset;
  auto* const images = static_cast<Complex<Real>*>(p.images) +
                       std::int64_t(tile.plane) * p.images_per_unit * a.major_stride + tile.offset;
  // The next image's points are under way while this one's are in work.
  Complex<Real> next[held];
  load_points<held>(next, block, images + blockIdx.y * a.major_stride, a.point_stride, a.head, a.tail);
  for (int image = blockIdx.y; image < p.images_per_unit; image += gridDim.y) {
    Complex<Real> v[all];
#pragma unroll
    for (int q = 0; q < held; ++q) v[q] = next[q];
    if (image + int(gridDim.y) < p.images_per_unit)
      load_points<held>(next, block, images + (image + gridDim.y) * a.major_stride, a.point_stride, a.head, a.tail);
    block.template forward<padded>(v);
#pragma unroll
    for (int q = 0; q < all; ++q) {
      auto const k = filter[block.index(q) * a.point_stride];
      v[q] = v[q] * (p.conjugate ? conjugate(k) : k);
    }
    block.inverse(v);
    if (tile.inside) store_points<held>(v, block, images + image * a.major_stride, a.point_stride, a.head, a.tail);
  }
}

// A tile of lines of one unit, for all of its images in turn.
template <typename Real, Lines layout, int log2_radix, int odd, int fixed, bool padded>
__global__ __launch_bounds__(most_threads<log2_radix, odd, layout, fixed>,
                             fixed ? 256 / most_threads<log2_radix, odd, layout, fixed>
                                   : 1) void gradient_lines_kernel(__grid_constant__ LineGradient const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  constexpr int all = odd << log2_radix, held = padded ? all / 2 : all;
  auto const& a = p.lines;
  BlockTransform<Real, layout, log2_radix, odd, fixed> const block(a.transform, shared);
  Tile const tile(a, block);
  auto const* const filter = static_cast<Complex<Real> const*>(p.filters) + tile.plane * p.filter_stride + tile.offset;
  auto* const gradient = static_cast<Complex<Real>*>(p.gradients) + tile.plane * p.filter_stride + tile.offset;
  std::int64_t const images = std::int64_t(tile.plane) * p.images_per_unit * a.major_stride + tile.offset;
  // Sums of groups of images go through memory: registers hold one group.
  Complex<Real> group[all] = {};
  bool empty = p.first;
  for (int image = 0; image < p.images_per_unit; ++image) {
    std::int64_t const at = images + image * a.major_stride;
    Complex<Real> x[all], v[all];
    load_points<held>(x, block, static_cast<Complex<Real> const*>(p.x) + at, a.point_stride, a.head, a.tail);
    auto* const dy = static_cast<Complex<Real>*>(p.dy) + at;
    load_points<held>(v, block, dy, a.point_stride, a.head, a.tail);
    __syncthreads();
    block.template forward<padded>(x);
    __syncthreads();
    block.template forward<padded>(v);
#pragma unroll
    for (int q = 0; q < all; ++q) group[q] = group[q] + v[q] * conjugate(x[q]);
    if (p.dx) {
#pragma unroll
      for (int q = 0; q < all; ++q) v[q] = v[q] * conjugate(filter[block.index(q) * a.point_stride]);
      block.inverse(v);
      if (tile.inside) store_points<held>(v, block, dy, a.point_stride, a.head, a.tail);
    }
    bool const end = image == p.images_per_unit - 1;
    if (image % images_per_sum != images_per_sum - 1 && !end) continue;
    if (!empty) {
      load_points<all>(v, block, gradient, a.point_stride, block.length(), 0);
#pragma unroll
      for (int q = 0; q < all; ++q) group[q] = v[q] + group[q];
    }
    empty = false;
    if (end && p.last) break;
    if (tile.inside) store_points<all>(group, block, gradient, a.point_stride, block.length(), 0);
#pragma unroll
    for (int q = 0; q < all; ++q) group[q] = Complex<Real>{};
  }
  if (!p.last) return;
  __syncthreads();
  block.inverse(group);
  if (tile.inside) store_points<all>(group, block, gradient, a.point_stride, p.head, p.tail);
}

template <auto Kernel, typename Real, typename... Arguments>
void launch_tiles(char const* name, ComplexLines const& a, std::int64_t planes, int shares, cudaStream_t stream,
                  Arguments const&... arguments) {
  faltung::cuda::launch<Kernel>(name,
                                {.grid = dim3(unsigned(a.tiles() * planes), unsigned(shares)),
                                 .threads = unsigned(a.transform.threads()),
                                 .shared_bytes = a.transform.shared_bytes(sizeof(Real)),
                                 .stream = stream,
                                 .starts_early = true},
                                arguments...);
}

std::int64_t plane_count(ComplexLines const& a) { return std::int64_t(a.major) * (a.minor_head + a.minor_tail); }

// visit.template operator()<Real, layout, log2_radix, odd>(); contiguous lines are those of split axes, powers of two.
template <typename Visit>
void visit_layout(ComplexLines const& a, Precision precision, Visit&& visit) {
  if (a.contiguous)
    visit_radix(precision, a.transform.length,
                [&]<typename Real, int radix> { visit.template operator()<Real, Lines::contiguous, radix, 1>(); });
  else
    visit_length(precision, a.transform.length, [&]<typename Real, int radix, int odd> {
      visit.template operator()<Real, Lines::interleaved, radix, odd>();
    });
}

// visit.template operator()<Real, layout, log2_radix, odd, fixed, padded>(): benched lengths are compiled as constants,
// for images that leave the second half of the points empty and for those that fill them.
template <typename Visit>
void visit_fixed(ComplexLines const& a, Precision precision, Visit&& visit) {
  auto const length = a.transform.length;
  bool const known = !a.contiguous && precision == Precision::single && length.odd == 1 &&
                     a.transform.log2_lines == log2_block_lines(false, length);
  auto const with = [&]<int log2> {
    constexpr int radix = log2_radix(Length{1, log2});
    if (a.tail == 0 && 2 * a.head <= length.points())
      visit.template operator()<float, Lines::interleaved, radix, 1, log2, true>();
    else
      visit.template operator()<float, Lines::interleaved, radix, 1, log2, false>();
  };
  switch (known ? length.log2 : 0) {
    case 7:
      return with.template operator()<7>();
    case 8:
      return with.template operator()<8>();
    case 9:
      return with.template operator()<9>();
    default:
      return visit_layout(a, precision, [&]<typename Real, Lines layout, int radix, int odd> {
        visit.template operator()<Real, layout, radix, odd, 0, false>();
      });
  }
}

}  // namespace

void transform_lines(ComplexLines const& a, void const* from, void* to, Precision compute, Precision stored,
                     cudaStream_t stream) {
  visit_layout(a, compute, [&]<typename Real, Lines layout, int radix, int odd> {
    char const* const name = "cuda.transformed lines";
    if (stored == compute)
      launch_tiles<transform_lines_kernel<Real, Real, layout, radix, odd>, Real>(name, a, plane_count(a), 1, stream, a,
                                                                                 from, to);
    else
      launch_tiles<transform_lines_kernel<Real, float, layout, radix, odd>, Real>(name, a, plane_count(a), 1, stream, a,
                                                                                  from, to);
  });
}

void restore_lines(ComplexLines const& a, void* data, Precision precision, cudaStream_t stream) {
  visit_layout(a, precision, [&]<typename Real, Lines layout, int radix, int odd> {
    launch_tiles<restore_lines_kernel<Real, layout, radix, odd>, Real>("cuda.transformed lines back", a, plane_count(a),
                                                                       1, stream, a, data);
  });
}

void multiply_lines(LineProduct const& p, Precision precision, cudaStream_t stream) {
  // Blocks share the images of a unit where there are few tiles: enough for four on each multiprocessor.
  std::int64_t const blocks = std::int64_t(p.lines.tiles()) * p.units;
  std::int64_t const wanted = 4 * faltung::cuda::multiprocessors();
  auto const shares = std::clamp<std::int64_t>((wanted + blocks - 1) / blocks, 1, std::min(p.images_per_unit, 65535));
  visit_fixed(p.lines, precision, [&]<typename Real, Lines layout, int radix, int odd, int fixed, bool padded> {
    launch_tiles<multiply_lines_kernel<Real, layout, radix, odd, fixed, padded>, Real>(
        "cuda.transformed product", p.lines, p.units, int(shares), stream, p);
  });
}

void gradient_lines(LineGradient const& p, Precision precision, cudaStream_t stream) {
  visit_fixed(p.lines, precision, [&]<typename Real, Lines layout, int radix, int odd, int fixed, bool padded> {
    launch_tiles<gradient_lines_kernel<Real, layout, radix, odd, fixed, padded>, Real>("cuda.transformed gradients",
                                                                                       p.lines, p.units, 1, stream, p);
  });
}

}  // namespace faltung::long_conv::cuda::transformed
