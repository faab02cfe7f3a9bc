// Transforms of complex lines in the workspace: forward (filters, middle axes), back, and the last axis with the
// product in between, so that a spectrum of all axes is never stored.
#include <algorithm>

#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/block_transform.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_threads = 512;
constexpr int images_per_sum = 16;  // no chain of sums over the batch is longer than this, twice

// The block's tile of lines: which plane, and where the thread's line begins.
struct Tile {
  std::int64_t plane, offset;
  bool inside;

  template <typename Block>
  __device__ Tile(ComplexLines const& a, Block const& block, std::int64_t item) {
    int const tiles = (a.lines + block.lines() - 1) / block.lines();
    int const line = int(item % tiles) * block.lines() + block.line();
    plane = item / tiles;
    inside = line < a.lines;
    offset = (inside ? line : 0) * a.line_stride;
  }
};

__device__ __forceinline__ bool holds(int point, int length, int head, int tail) {
  return point < head || point >= length - tail;
}

// elements: 4 where the second half of the points holds nothing.
template <int elements = 8, typename Real, typename Stored, typename Block>
__device__ __forceinline__ void load_points(Complex<Real> (&v)[8], Block const& block, Complex<Stored> const* from,
                                            std::int64_t stride, int head, int tail) {
#pragma unroll
  for (int q = 0; q < elements; ++q)
    v[q] = holds(block.index(q), block.length(), head, tail) ? converted<Real>(from[block.index(q) * stride])
                                                             : Complex<Real>{};
}

template <int elements = 8, typename Real, typename Stored, typename Block>
__device__ __forceinline__ void store_points(Complex<Real> const (&v)[8], Block const& block, Complex<Stored>* to,
                                             std::int64_t stride, int head, int tail) {
#pragma unroll
  for (int q = 0; q < elements; ++q)
    if (holds(block.index(q), block.length(), head, tail)) to[block.index(q) * stride] = converted<Stored>(v[q]);
}

__device__ std::int64_t plane_offset(ComplexLines const& a, std::int64_t plane) {
  int const count = a.minor_head + a.minor_tail, minor = int(plane % count);
  int const position = minor < a.minor_head ? minor : a.minor_positions - a.minor_tail + (minor - a.minor_head);
  return plane / count * a.major_stride + position * a.minor_stride;
}

template <typename Real, typename Stored, Lines layout>
__global__ __launch_bounds__(most_threads) void transform_lines_kernel(__grid_constant__ ComplexLines const a,
                                                                       void const* from, void* to) {
  extern __shared__ __align__(16) unsigned char shared[];
  BlockTransform<Real, layout> const block(a.transform, shared);
  Tile const tile(a, block, blockIdx.x);
  std::int64_t const at = plane_offset(a, tile.plane) + tile.offset;
  Complex<Real> v[8];
  load_points(v, block, static_cast<Complex<Real> const*>(from) + at, a.point_stride, a.head, a.tail);
  block.forward(v);
  if (tile.inside) store_points(v, block, static_cast<Complex<Stored>*>(to) + at, a.point_stride, block.length(), 0);
}

template <typename Real, Lines layout>
__global__ __launch_bounds__(most_threads) void restore_lines_kernel(__grid_constant__ ComplexLines const a,
                                                                     void* data) {
  extern __shared__ __align__(16) unsigned char shared[];
  BlockTransform<Real, layout> const block(a.transform, shared);
  Tile const tile(a, block, blockIdx.x);
  auto* const line = static_cast<Complex<Real>*>(data) + plane_offset(a, tile.plane) + tile.offset;
  Complex<Real> v[8];
  load_points(v, block, line, a.point_stride, block.length(), 0);
  block.inverse(v);
  if (tile.inside) store_points(v, block, line, a.point_stride, a.head, a.tail);
}

// A tile of lines of one unit, for a share of its images.
template <typename Real, Lines layout, int fixed, bool padded>
__global__ __launch_bounds__(most_threads) void multiply_lines_kernel(__grid_constant__ LineProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int elements = padded ? 4 : 8;
  auto const& a = p.lines;
  BlockTransform<Real, layout, fixed> const block(a.transform, shared);
  Tile const tile(a, block, blockIdx.x);  // its plane is the unit
  auto const* const filter = static_cast<Complex<Real> const*>(p.filters) + tile.plane * p.filter_stride + tile.offset;
  auto* const images =
      static_cast<Complex<Real>*>(p.images) + tile.plane * p.images_per_unit * a.major_stride + tile.offset;
  for (int image = blockIdx.y; image < p.images_per_unit; image += gridDim.y) {
    auto* const line = images + image * a.major_stride;
    Complex<Real> v[8];
    load_points<elements>(v, block, line, a.point_stride, a.head, a.tail);
    block.template forward<padded>(v);
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      auto const k = filter[block.index(q) * a.point_stride];
      v[q] = v[q] * (p.conjugate ? conjugate(k) : k);
    }
    block.inverse(v);
    if (tile.inside) store_points<elements>(v, block, line, a.point_stride, a.head, a.tail);
  }
}

// A tile of lines of one unit, for all of its images in turn.
template <typename Real, Lines layout, int fixed, bool padded>
__global__ __launch_bounds__(most_threads) void gradient_lines_kernel(__grid_constant__ LineGradient const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int elements = padded ? 4 : 8;
  auto const& a = p.lines;
  BlockTransform<Real, layout, fixed> const block(a.transform, shared);
  Tile const tile(a, block, blockIdx.x);
  auto const* const filter = static_cast<Complex<Real> const*>(p.filters) + tile.plane * p.filter_stride + tile.offset;
  auto* const gradient = static_cast<Complex<Real>*>(p.gradients) + tile.plane * p.filter_stride + tile.offset;
  std::int64_t const images = tile.plane * p.images_per_unit * a.major_stride + tile.offset;
  Complex<Real> total[8] = {}, group[8] = {};
  if (!p.first) load_points(total, block, gradient, a.point_stride, block.length(), 0);
  for (int image = 0; image < p.images_per_unit; ++image) {
    std::int64_t const at = images + image * a.major_stride;
    Complex<Real> x[8], v[8];
    load_points<elements>(x, block, static_cast<Complex<Real> const*>(p.x) + at, a.point_stride, a.head, a.tail);
    auto* const dy = static_cast<Complex<Real>*>(p.dy) + at;
    load_points<elements>(v, block, dy, a.point_stride, a.head, a.tail);
    __syncthreads();
    block.template forward<padded>(x);
    __syncthreads();
    block.template forward<padded>(v);
#pragma unroll
    for (int q = 0; q < 8; ++q) group[q] = group[q] + v[q] * conjugate(x[q]);
    if (image % images_per_sum == images_per_sum - 1 || image == p.images_per_unit - 1) {
#pragma unroll
      for (int q = 0; q < 8; ++q) total[q] = total[q] + group[q], group[q] = Complex<Real>{};
    }
    if (!p.dx) continue;
#pragma unroll
    for (int q = 0; q < 8; ++q) v[q] = v[q] * conjugate(filter[block.index(q) * a.point_stride]);
    block.inverse(v);
    if (tile.inside) store_points<elements>(v, block, dy, a.point_stride, a.head, a.tail);
  }
  if (p.last) {
    __syncthreads();
    block.inverse(total);
    if (tile.inside) store_points(total, block, gradient, a.point_stride, p.head, p.tail);
  } else if (tile.inside) {
    store_points(total, block, gradient, a.point_stride, block.length(), 0);
  }
}

template <auto Kernel, typename Real, typename... Arguments>
void launch_tiles(char const* name, ComplexLines const& a, std::int64_t planes, int shares, cudaStream_t stream,
                  Arguments const&... arguments) {
  int const lines = 1 << a.transform.log2_lines;
  std::int64_t const tiles = (a.lines + lines - 1) / lines;
  faltung::cuda::launch<Kernel>(name,
                                {.grid = dim3(unsigned(tiles * planes), unsigned(shares)),
                                 .threads = unsigned(a.transform.threads()),
                                 .shared_bytes = a.transform.shared_bytes(sizeof(Real)),
                                 .stream = stream},
                                arguments...);
}

std::int64_t plane_count(ComplexLines const& a) { return std::int64_t(a.major) * (a.minor_head + a.minor_tail); }

// visit.template operator()<Real, layout, fixed, padded>(): benched lengths are compiled as constants, for images that
// leave the second half of the points empty.
template <typename Visit>
void visit_length(ComplexLines const& a, Precision precision, Visit&& visit) {
  auto const runtime = [&]<typename Real> {
    if (a.contiguous)
      visit.template operator()<Real, Lines::contiguous, 0, false>();
    else
      visit.template operator()<Real, Lines::interleaved, 0, false>();
  };
  if (precision == Precision::twice) return runtime.template operator()<double>();
  if (a.contiguous || a.tail != 0 || 2 * a.head > 1 << a.transform.log2_length)
    return runtime.template operator()<float>();
  switch (a.transform.log2_length) {
    case 7:
      return visit.template operator()<float, Lines::interleaved, 7, true>();
    case 8:
      return visit.template operator()<float, Lines::interleaved, 8, true>();
    case 9:
      return visit.template operator()<float, Lines::interleaved, 9, true>();
    default:
      return runtime.template operator()<float>();
  }
}

// visit.template operator()<Real, layout>()
template <typename Visit>
void visit(Precision precision, bool contiguous, Visit&& visit) {
  auto const with = [&]<typename Real> {
    if (contiguous)
      visit.template operator()<Real, Lines::contiguous>();
    else
      visit.template operator()<Real, Lines::interleaved>();
  };
  if (precision == Precision::twice)
    with.template operator()<double>();
  else
    with.template operator()<float>();
}

}  // namespace

void transform_lines(ComplexLines const& a, void const* from, void* to, Precision compute, Precision stored,
                     cudaStream_t stream) {
  visit(compute, a.contiguous, [&]<typename Real, Lines layout> {
    char const* const name = "cuda.transformed lines";
    if (stored == compute)
      launch_tiles<transform_lines_kernel<Real, Real, layout>, Real>(name, a, plane_count(a), 1, stream, a, from, to);
    else
      launch_tiles<transform_lines_kernel<Real, float, layout>, Real>(name, a, plane_count(a), 1, stream, a, from, to);
  });
}

void restore_lines(ComplexLines const& a, void* data, Precision precision, cudaStream_t stream) {
  visit(precision, a.contiguous, [&]<typename Real, Lines layout> {
    launch_tiles<restore_lines_kernel<Real, layout>, Real>("cuda.transformed lines back", a, plane_count(a), 1, stream,
                                                           a, data);
  });
}

void multiply_lines(LineProduct const& p, Precision precision, cudaStream_t stream) {
  // Blocks share the images of a unit where there are few tiles: enough for four on each multiprocessor.
  std::int64_t const lines = 1 << p.lines.transform.log2_lines;
  std::int64_t const blocks = (p.lines.lines + lines - 1) / lines * p.units;
  std::int64_t const wanted = 4 * faltung::cuda::multiprocessors();
  auto const shares = std::clamp<std::int64_t>((wanted + blocks - 1) / blocks, 1, std::min(p.images_per_unit, 65535));
  visit_length(p.lines, precision, [&]<typename Real, Lines layout, int fixed, bool padded> {
    launch_tiles<multiply_lines_kernel<Real, layout, fixed, padded>, Real>("cuda.transformed product", p.lines, p.units,
                                                                           int(shares), stream, p);
  });
}

void gradient_lines(LineGradient const& p, Precision precision, cudaStream_t stream) {
  visit_length(p.lines, precision, [&]<typename Real, Lines layout, int fixed, bool padded> {
    launch_tiles<gradient_lines_kernel<Real, layout, fixed, padded>, Real>("cuda.transformed gradients", p.lines,
                                                                           p.units, 1, stream, p);
  });
}

}  // namespace faltung::long_conv::cuda::transformed
