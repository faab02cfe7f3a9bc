// Transforms along rows: real images and filters to spectra and back.
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr int most_threads = 512;

// Where a row of images lies.
struct ImageRow {
  int unit, image, row0, row1;
  std::int64_t spectrum;  // element of the spectra
};
__device__ ImageRow image_row(ImageRows const& a, std::int64_t index) {
  int const rows = a.rows0 * a.rows1;
  int const image = int(index / rows), row = int(index % rows);
  ImageRow at{image / a.chunk.images, image % a.chunk.images, row / a.rows1, row % a.rows1, 0};
  at.spectrum = image * a.image_stride + (std::int64_t(at.row0) * a.pitch + at.row1) * (1 << a.transform.log2_length);
  return at;
}
__device__ std::int64_t element_of(ImageRow const& at, Chunk const& chunk, Strides const& strides) {
  return image_offset(chunk, strides, at.unit, at.image) + at.row0 * strides.spatial[0] + at.row1 * strides.spatial[1];
}

template <typename Real, int fixed>
__global__ __launch_bounds__(most_threads) void transform_images_kernel(__grid_constant__ ImageRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  BlockTransform<Real, Lines::contiguous, fixed> const block(a.transform, shared);
  std::int64_t const index = std::int64_t(blockIdx.x) * block.lines() + block.line();
  bool const inside = index < std::int64_t(a.chunk.units) * a.chunk.images * a.rows0 * a.rows1;
  auto const at = image_row(a, inside ? index : 0);
  Complex<Real> v[8] = {};
  if (inside) {
    load_image(v, a.from.data, a.dtype, element_of(at, a.chunk, a.from.strides), a.from.strides.spatial[2], a.extent,
               block.place(), block.share(), block.length());
    turn(v, a.rotation, block.place(), block.share());
  }
  block.forward(v);
  if (!inside) return;
  auto* const to = static_cast<Complex<Real>*>(a.spectra) + at.spectrum;
#pragma unroll
  for (int q = 0; q < 8; ++q) to[block.index(q)] = v[q];
}

template <typename Real, int fixed>
__global__ __launch_bounds__(most_threads) void restore_images_kernel(__grid_constant__ ImageRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  BlockTransform<Real, Lines::contiguous, fixed> const block(a.transform, shared);
  std::int64_t const index = std::int64_t(blockIdx.x) * block.lines() + block.line();
  bool const inside = index < std::int64_t(a.chunk.units) * a.chunk.images * a.rows0 * a.rows1;
  auto const at = image_row(a, inside ? index : 0);
  Complex<Real> v[8] = {};
  if (inside) {
    auto const* const from = static_cast<Complex<Real> const*>(a.spectra) + at.spectrum;
#pragma unroll
    for (int q = 0; q < 8; ++q) v[q] = from[block.index(q)];
  }
  block.inverse(v);
  if (!inside) return;
  turn_back(v, a.rotation, block.place(), block.share());
  store_image(v, a, element_of(at, a.chunk, a.to.strides), element_of(at, a.chunk, a.from.strides),
              channel_of(a.chunk, at.unit), block.place(), block.share(), block.length());
}

template <typename Real, typename Stored>
__global__ __launch_bounds__(most_threads) void transform_filters_kernel(__grid_constant__ FilterRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  BlockTransform<Real, Lines::contiguous> const block(a.transform, shared);
  std::int64_t const index = std::int64_t(blockIdx.x) * block.lines() + block.line();
  int const count0 = a.axes[0].count(), count1 = a.axes[1].count();
  bool const inside = index < std::int64_t(a.chunk.units) * count0 * count1;
  int const unit = inside ? int(index / (count0 * count1)) : 0, row = int(index % (count0 * count1));
  int const at0 = position(a.axes[0], row / count1), at1 = position(a.axes[1], row % count1);
  Complex<Real> v[8] = {};
  if (inside) {
    load_taps(v, a, a.axes[2], image_offset(a.chunk, a.from.strides, unit, 0), at0, at1, block.place(), block.share(),
              block.length());
    turn(v, a.rotation, block.place(), block.share());
  }
  block.forward(v);
  if (!inside) return;
  auto* const to = static_cast<Complex<Stored>*>(a.spectra) + unit * a.unit_stride +
                   (std::int64_t(at0) * a.axes[1].positions + at1) * block.length();
#pragma unroll
  for (int q = 0; q < 8; ++q) to[block.index(q)] = converted<Stored>(v[q]);
}

// dk: a line is a row of taps.
template <typename Real>
__global__ __launch_bounds__(most_threads) void restore_filters_kernel(__grid_constant__ FilterRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  BlockTransform<Real, Lines::contiguous> const block(a.transform, shared);
  std::int64_t const index = std::int64_t(blockIdx.x) * block.lines() + block.line();
  std::int64_t const rows = a.axes[0].filter * a.axes[1].filter;
  bool const inside = index < a.chunk.units * rows;
  int const unit = inside ? int(index / rows) : 0;
  std::int64_t const m0 = index % rows / a.axes[1].filter, m1 = index % a.axes[1].filter;
  Complex<Real> v[8] = {};
  if (inside) {
    auto const spots0 = spots_of(a.axes[0], m0), spots1 = spots_of(a.axes[1], m1);
    for (int i = 0; i < spots0.count; ++i)
      for (int j = 0; j < spots1.count; ++j) {
        auto const* const from = static_cast<Complex<Real> const*>(a.spectra) + unit * a.unit_stride +
                                 (std::int64_t(spots0.at[i]) * a.axes[1].positions + spots1.at[j]) * block.length();
#pragma unroll
        for (int q = 0; q < 8; ++q) v[q] = v[q] + from[block.index(q)];
      }
  }
  block.inverse(v);
  turn_back(v, a.rotation, block.place(), block.share());
  // The real line, so that any thread can gather any tap.
  __syncthreads();
  Real* const line = reinterpret_cast<Real*>(shared) + block.line() * 2 * block.length();
#pragma unroll
  for (int q = 0; q < 8; ++q) {
    line[block.index(q)] = v[q].re;
    line[block.index(q) + block.length()] = -v[q].im;
  }
  __syncthreads();
  if (!inside) return;
  store_taps<Real>(
      a, image_offset(a.chunk, a.to.strides, unit, 0) + m0 * a.to.strides.spatial[0] + m1 * a.to.strides.spatial[1],
      [&](int at) { return line[at]; }, block.place(), block.share());
}

template <typename Real>
__global__ __launch_bounds__(most_threads) void multiply_rows_kernel(__grid_constant__ RowProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& a = p.rows;
  BlockTransform<Real, Lines::contiguous> const block(a.transform, shared);
  std::int64_t const index = std::int64_t(blockIdx.x) * block.lines() + block.line();
  bool const inside = index < std::int64_t(a.chunk.units) * a.chunk.images;
  auto const at = image_row(a, inside ? index : 0);
  Complex<Real> v[8] = {};
  if (inside) {
    load_image(v, a.from.data, a.dtype, element_of(at, a.chunk, a.from.strides), a.from.strides.spatial[2], a.extent,
               block.place(), block.share(), block.length());
    turn(v, a.rotation, block.place(), block.share());
  }
  block.forward(v);
  auto const* const filter = static_cast<Complex<Real> const*>(p.filters) + at.unit * p.filter_stride;
#pragma unroll
  for (int q = 0; q < 8; ++q) {
    auto const k = filter[block.index(q)];
    v[q] = v[q] * (p.conjugate ? conjugate(k) : k);
  }
  block.inverse(v);
  if (!inside) return;
  turn_back(v, a.rotation, block.place(), block.share());
  store_image(v, a, element_of(at, a.chunk, a.to.strides), element_of(at, a.chunk, a.from.strides),
              channel_of(a.chunk, at.unit), block.place(), block.share(), block.length());
}

// A line per unit; images one after the other, summed in groups of sixteen.
template <typename Real>
__global__ __launch_bounds__(most_threads) void row_gradient_kernel(__grid_constant__ RowGradient const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto const& a = p.x;
  BlockTransform<Real, Lines::contiguous> const block(a.transform, shared);
  std::int64_t const index = std::int64_t(blockIdx.x) * block.lines() + block.line();
  bool const inside = index < a.chunk.units;
  int const unit = inside ? int(index) : 0;
  Complex<Real> total[8] = {}, group[8] = {};
  for (int image = 0; image < a.chunk.images; ++image) {
    Complex<Real> x[8] = {}, v[8] = {};
    auto const load = [&](Complex<Real>(&to)[8], ConstView const& from) {
      load_image(to, from.data, a.dtype, image_offset(a.chunk, from.strides, unit, image), from.strides.spatial[2],
                 a.extent, block.place(), block.share(), block.length());
      turn(to, a.rotation, block.place(), block.share());
      __syncthreads();
      block.forward(to);
    };
    load(x, a.from);
    load(v, p.dy);
#pragma unroll
    for (int q = 0; q < 8; ++q) group[q] = group[q] + v[q] * conjugate(x[q]);
    if (image % 16 == 15 || image == a.chunk.images - 1) {
#pragma unroll
      for (int q = 0; q < 8; ++q) total[q] = total[q] + group[q], group[q] = {Real(0), Real(0)};
    }
  }
  block.inverse(total);
  turn_back(total, a.rotation, block.place(), block.share());
  __syncthreads();
  Real* const line = reinterpret_cast<Real*>(shared) + block.line() * 2 * block.length();
#pragma unroll
  for (int q = 0; q < 8; ++q) {
    line[block.index(q)] = total[q].re;
    line[block.index(q) + block.length()] = -total[q].im;
  }
  __syncthreads();
  if (!inside) return;
  store_single_axis<Real>(
      p.filter, unit, [&](int at) { return line[at]; }, block.place(), block.share());
}

template <auto Kernel, typename Real, typename Arguments>
void launch_lines(char const* name, Transform const& transform, std::int64_t lines, Arguments const& arguments,
                  cudaStream_t stream) {
  std::int64_t const blocks = (lines + (1 << transform.log2_lines) - 1) >> transform.log2_lines;
  faltung::cuda::launch<Kernel>(name,
                                {.grid = dim3(unsigned(blocks)),
                                 .threads = unsigned(transform.threads()),
                                 .shared_bytes = transform.shared_bytes(sizeof(Real)),
                                 .stream = stream},
                                arguments);
}

std::int64_t row_count(ImageRows const& a) { return std::int64_t(a.chunk.units) * a.chunk.images * a.rows0 * a.rows1; }

// visit.template operator()<fixed>(): lengths that are benched are compiled as constants, a fifth faster.
template <typename Visit>
void visit_length(int log2_length, Visit&& visit) {
  switch (log2_length) {
    case 6:
      return visit.template operator()<6>();
    case 7:
      return visit.template operator()<7>();
    case 8:
      return visit.template operator()<8>();
    default:
      return visit.template operator()<0>();
  }
}

}  // namespace

void transform_rows(ImageRows const& a, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed rows";
  if (precision == Precision::twice)
    return launch_lines<transform_images_kernel<double, 0>, double>(name, a.transform, row_count(a), a, stream);
  visit_length(a.transform.log2_length, [&]<int fixed> {
    launch_lines<transform_images_kernel<float, fixed>, float>(name, a.transform, row_count(a), a, stream);
  });
}

void restore_rows(ImageRows const& a, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed rows back";
  if (precision == Precision::twice)
    return launch_lines<restore_images_kernel<double, 0>, double>(name, a.transform, row_count(a), a, stream);
  visit_length(a.transform.log2_length, [&]<int fixed> {
    launch_lines<restore_images_kernel<float, fixed>, float>(name, a.transform, row_count(a), a, stream);
  });
}

void transform_rows(FilterRows const& a, Precision compute, Precision stored, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter rows";
  std::int64_t const rows = std::int64_t(a.chunk.units) * a.axes[0].count() * a.axes[1].count();
  if (compute == Precision::single)
    launch_lines<transform_filters_kernel<float, float>, float>(name, a.transform, rows, a, stream);
  else if (stored == Precision::single)
    launch_lines<transform_filters_kernel<double, float>, double>(name, a.transform, rows, a, stream);
  else
    launch_lines<transform_filters_kernel<double, double>, double>(name, a.transform, rows, a, stream);
}

void restore_rows(FilterRows const& a, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter rows back";
  std::int64_t const rows = a.chunk.units * a.axes[0].filter * a.axes[1].filter;
  if (precision == Precision::twice)
    launch_lines<restore_filters_kernel<double>, double>(name, a.transform, rows, a, stream);
  else
    launch_lines<restore_filters_kernel<float>, float>(name, a.transform, rows, a, stream);
}

void multiply_rows(RowProduct const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed one axis";
  if (precision == Precision::twice)
    launch_lines<multiply_rows_kernel<double>, double>(name, p.rows.transform, row_count(p.rows), p, stream);
  else
    launch_lines<multiply_rows_kernel<float>, float>(name, p.rows.transform, row_count(p.rows), p, stream);
}

void filter_gradient(RowGradient const& p, Precision precision, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter gradient of one axis";
  if (precision == Precision::twice)
    launch_lines<row_gradient_kernel<double>, double>(name, p.x.transform, p.x.chunk.units, p, stream);
  else
    launch_lines<row_gradient_kernel<float>, float>(name, p.x.transform, p.x.chunk.units, p, stream);
}

}  // namespace faltung::long_conv::cuda::transformed
