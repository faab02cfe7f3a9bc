// Transforms along rows: real images and filters to spectra and back.
#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "long_conv/cuda/transformed/cyclic_rows.cuh"
#include "long_conv/cuda/transformed/visit.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

// Where a row of images lies.
struct ImageRow {
  int unit, image, row0, row1;
  std::int64_t spectrum;  // element of the spectra
};
__device__ ImageRow image_row(ImageRows const& a, std::uint32_t index) {
  auto const image = a.by_rows.quotient(index), row = a.by_rows.remainder(index, image);
  auto const unit = a.chunk.by_images.quotient(image), row0 = a.by_rows1.quotient(row);
  ImageRow at{int(unit), int(a.chunk.by_images.remainder(image, unit)), int(row0), int(a.by_rows1.remainder(row, row0)),
              0};
  at.spectrum = image * a.image_stride + std::int64_t(at.row0 * a.pitch + at.row1) * a.spectrum_points;
  return at;
}
__device__ std::int64_t element_of(ImageRow const& at, Chunk const& chunk, Strides const& strides) {
  return image_offset(chunk, strides, at.unit, at.image) + at.row0 * strides.spatial[0] + at.row1 * strides.spatial[1];
}

// A row of a tensor of images, from its first element on: what of it exists, for images in pieces.
struct TensorRow {
  std::int64_t element;
  int extent;
};
enum class Side { read, result };
__device__ TensorRow tensor_row(ImageRows const& a, ImageRow const& at, Strides const& strides, Side side) {
  TensorRow row{element_of(at, a.chunk, strides), a.extent};
  if (!a.pieces.any()) return row;
  auto const image = std::uint32_t(a.chunk.first_image + at.image), sample = a.chunk.by_pieces.quotient(image);
  auto const piece = a.chunk.by_pieces.remainder(image, sample), outer = a.by_inner_pieces.quotient(piece);
  auto const inner = a.by_inner_pieces.remainder(piece, outer), middle = a.by_last_pieces.quotient(inner);
  auto const first = [&](int axis, std::uint32_t i) {
    auto const& pieces = a.pieces.axes[axis];
    int const at = int(i) * pieces.step + (side == Side::result ? pieces.shift : 0);
    row.element += at * strides.spatial[axis];
    return at;
  };
  int const row0 = at.row0 + first(0, outer), row1 = at.row1 + first(1, middle);
  int const left = a.pieces.axes[2].limit - first(2, a.by_last_pieces.remainder(inner, middle));
  row.extent = row0 < a.pieces.axes[0].limit && row1 < a.pieces.axes[1].limit ? (left < a.extent ? left : a.extent) : 0;
  return row;
}

template <typename Real, int log2_radix, int odd, int fixed, bool cyclic>
__global__ __launch_bounds__(most_threads<log2_radix, odd, Lines::contiguous, fixed>,
                             fixed ? 1024 / most_threads<log2_radix, odd, Lines::contiguous, fixed>
                                   : 1) void transform_images_kernel(__grid_constant__ ImageRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  BlockTransform<Real, Lines::contiguous, log2_radix, odd, fixed> const block(a.transform, shared);
  std::uint32_t const index = blockIdx.x * block.lines() + block.line();
  bool const inside = index < a.chunk.units * a.chunk.images * a.by_rows.value;
  auto const at = image_row(a, inside ? index : 0);
  Complex<Real> v[odd << log2_radix] = {};
  if (inside) {
    auto const row = tensor_row(a, at, a.from.strides, Side::read);
    std::int64_t const stride = a.from.strides.spatial[2];
    if constexpr (cyclic) {
      load_cyclic_image(v, a.from.data, a.dtype, row.element, stride, row.extent, block.place(), block.share());
    } else {
      load_image(v, a.from.data, a.dtype, row.element, stride, row.extent, block.place(), block.share(),
                 block.length());
      turn(v, a.rotation, block.place(), block.share());
    }
  }
  block.forward(v);
  auto* const to = static_cast<Complex<Real>*>(a.spectra) + at.spectrum;
  if constexpr (cyclic) return store_cyclic_spectrum(v, block, shared, a.frequencies, a.rotation, inside, to);
  if (!inside) return;
#pragma unroll
  for (int q = 0; q < odd << log2_radix; ++q) to[block.index(q)] = v[q];
}

template <typename Real, int log2_radix, int odd, int fixed, bool cyclic>
__global__ __launch_bounds__(most_threads<log2_radix, odd, Lines::contiguous, fixed>,
                             fixed ? 1024 / most_threads<log2_radix, odd, Lines::contiguous, fixed>
                                   : 1) void restore_images_kernel(__grid_constant__ ImageRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  BlockTransform<Real, Lines::contiguous, log2_radix, odd, fixed> const block(a.transform, shared);
  std::uint32_t const index = blockIdx.x * block.lines() + block.line();
  bool const inside = index < a.chunk.units * a.chunk.images * a.by_rows.value;
  auto const at = image_row(a, inside ? index : 0);
  Complex<Real> v[odd << log2_radix] = {};
  auto const* const from = static_cast<Complex<Real> const*>(a.spectra) + at.spectrum;
  if constexpr (cyclic) {
    load_cyclic_spectrum(v, block, shared, a.frequencies, a.rotation,
                         [&](int k) { return inside ? from[k] : Complex<Real>{}; });
  } else if (inside) {
#pragma unroll
    for (int q = 0; q < odd << log2_radix; ++q) v[q] = from[block.index(q)];
  }
  block.inverse(v);
  if (!inside) return;
  if constexpr (cyclic) {
    if (a.adds) {
      auto const row = tensor_row(a, at, a.to.strides, Side::result);
      return add_cyclic_image(v, a.to, row.element, row.extent, block.place(), block.share());
    }
    return store_cyclic_image(v, a, element_of(at, a.chunk, a.to.strides), element_of(at, a.chunk, a.from.strides),
                              channel_of(a.chunk, at.unit), block.place(), block.share());
  }
  turn_back(v, a.rotation, block.place(), block.share());
  if (a.adds) {
    auto const row = tensor_row(a, at, a.to.strides, Side::result);
    return add_image(v, a.to, row.element, row.extent, block.place(), block.share(), block.length());
  }
  store_image(v, a, element_of(at, a.chunk, a.to.strides), element_of(at, a.chunk, a.from.strides),
              channel_of(a.chunk, at.unit), block.place(), block.share(), block.length());
}

template <typename Real, typename Stored, int log2_radix, int odd, bool cyclic>
__global__ __launch_bounds__(most_threads<log2_radix, odd>) void transform_filters_kernel(
    __grid_constant__ FilterRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  BlockTransform<Real, Lines::contiguous, log2_radix, odd> const block(a.transform, shared);
  std::uint32_t const index = blockIdx.x * block.lines() + block.line();
  bool const inside = index < a.chunk.units * a.by_rows.value;
  auto const unit = inside ? a.by_rows.quotient(index) : 0, row = inside ? a.by_rows.remainder(index, unit) : 0;
  auto const row0 = a.by_rows1.quotient(row);
  int const at0 = position(a.axes[0], int(row0)), at1 = position(a.axes[1], int(a.by_rows1.remainder(row, row0)));
  Complex<Real> v[odd << log2_radix] = {};
  if (inside) {
    auto const from = image_offset(a.chunk, a.from.strides, int(unit), 0);
    if constexpr (cyclic) {
      load_cyclic_taps(v, a, from, at0, at1, block.place(), block.share());
    } else {
      load_taps(v, a, a.axes[2], from, at0, at1, block.place(), block.share(), block.length());
      turn(v, a.rotation, block.place(), block.share());
    }
  }
  block.forward(v);
  auto* const to = static_cast<Complex<Stored>*>(a.spectra) + unit * a.unit_stride +
                   (std::int64_t(at0) * a.axes[1].positions + at1) * a.spectrum_points;
  if constexpr (cyclic) return store_cyclic_spectrum(v, block, shared, a.frequencies, a.rotation, inside, to);
  if (!inside) return;
#pragma unroll
  for (int q = 0; q < odd << log2_radix; ++q) to[block.index(q)] = converted<Stored>(v[q]);
}

// dk: a line is a row of taps.
template <typename Real, int log2_radix, int odd, bool cyclic>
__global__ __launch_bounds__(most_threads<log2_radix, odd>) void restore_filters_kernel(
    __grid_constant__ FilterRows const a) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  BlockTransform<Real, Lines::contiguous, log2_radix, odd> const block(a.transform, shared);
  std::uint32_t const index = blockIdx.x * block.lines() + block.line();
  bool const inside = index < a.chunk.units * a.by_tap_rows.value;
  auto const unit = inside ? a.by_tap_rows.quotient(index) : 0, row = inside ? a.by_tap_rows.remainder(index, unit) : 0;
  auto const m0 = a.by_tap_rows1.quotient(row), m1 = a.by_tap_rows1.remainder(row, m0);
  Complex<Real> v[odd << log2_radix] = {};
  auto const spots0 = inside ? spots_of(a.axes[0], m0) : Spots{}, spots1 = inside ? spots_of(a.axes[1], m1) : Spots{};
  // use(row of the spectra) for each that the taps are summed from.
  auto const each_row = [&](auto&& use) {
    for (int i = 0; i < spots0.count; ++i)
      for (int j = 0; j < spots1.count; ++j)
        use(static_cast<Complex<Real> const*>(a.spectra) + unit * a.unit_stride +
            (std::int64_t(spots0.at[i]) * a.axes[1].positions + spots1.at[j]) * a.spectrum_points);
  };
  if constexpr (cyclic) {
    load_cyclic_spectrum(v, block, shared, a.frequencies, a.rotation, [&](int k) {
      Complex<Real> sum{};
      each_row([&](Complex<Real> const* from) { sum = sum + from[k]; });
      return sum;
    });
    block.inverse(v);
  } else {
    each_row([&](Complex<Real> const* from) {
#pragma unroll
      for (int q = 0; q < odd << log2_radix; ++q) v[q] = v[q] + from[block.index(q)];
    });
    block.inverse(v);
    turn_back(v, a.rotation, block.place(), block.share());
  }
  // The real line, so that any thread can gather any tap.
  __syncthreads();
  Real* const line = reinterpret_cast<Real*>(shared) + block.line() * 2 * block.length();
#pragma unroll
  for (int q = 0; q < odd << log2_radix; ++q) {
    int const n = block.index(q);
    line[cyclic ? 2 * n : n] = v[q].re;
    line[cyclic ? 2 * n + 1 : n + block.length()] = cyclic ? v[q].im : -v[q].im;
  }
  __syncthreads();
  if (!inside) return;
  store_taps<Real>(
      a,
      image_offset(a.chunk, a.to.strides, int(unit), 0) + m0 * a.to.strides.spatial[0] + m1 * a.to.strides.spatial[1],
      [&](int at) { return line[at]; }, block.place(), block.share());
}

template <typename Real, int log2_radix, int odd>
__global__ __launch_bounds__(most_threads<log2_radix, odd>) void multiply_rows_kernel(
    __grid_constant__ RowProduct const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& a = p.rows;
  BlockTransform<Real, Lines::contiguous, log2_radix, odd> const block(a.transform, shared);
  std::uint32_t const index = blockIdx.x * block.lines() + block.line();
  bool const inside = index < std::uint32_t(a.chunk.units) * a.chunk.images;
  auto const at = image_row(a, inside ? index : 0);
  Complex<Real> v[odd << log2_radix] = {};
  if (inside) {
    load_image(v, a.from.data, a.dtype, element_of(at, a.chunk, a.from.strides), a.from.strides.spatial[2], a.extent,
               block.place(), block.share(), block.length());
    turn(v, a.rotation, block.place(), block.share());
  }
  block.forward(v);
  auto const* const filter = static_cast<Complex<Real> const*>(p.filters) + at.unit * p.filter_stride;
#pragma unroll
  for (int q = 0; q < odd << log2_radix; ++q) {
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
template <typename Real, int log2_radix, int odd>
__global__ __launch_bounds__(most_threads<log2_radix, odd>) void row_gradient_kernel(
    __grid_constant__ RowGradient const p) {
  extern __shared__ __align__(16) unsigned char shared[];
  faltung::cuda::grid_release_successor();
  faltung::cuda::grid_wait_for_predecessor();
  auto const& a = p.x;
  BlockTransform<Real, Lines::contiguous, log2_radix, odd> const block(a.transform, shared);
  std::uint32_t const index = blockIdx.x * block.lines() + block.line();
  bool const inside = index < std::uint32_t(a.chunk.units);
  int const unit = inside ? int(index) : 0;
  Complex<Real> total[odd << log2_radix] = {}, group[odd << log2_radix] = {};
  for (int image = 0; image < a.chunk.images; ++image) {
    Complex<Real> x[odd << log2_radix] = {}, v[odd << log2_radix] = {};
    auto const load = [&](Complex<Real>(&to)[odd << log2_radix], ConstView const& from) {
      load_image(to, from.data, a.dtype, image_offset(a.chunk, from.strides, unit, image), from.strides.spatial[2],
                 a.extent, block.place(), block.share(), block.length());
      turn(to, a.rotation, block.place(), block.share());
      __syncthreads();
      block.forward(to);
    };
    load(x, a.from);
    load(v, p.dy);
#pragma unroll
    for (int q = 0; q < odd << log2_radix; ++q) group[q] = group[q] + v[q] * conjugate(x[q]);
    if (image % 16 == 15 || image == a.chunk.images - 1) {
#pragma unroll
      for (int q = 0; q < odd << log2_radix; ++q) total[q] = total[q] + group[q], group[q] = {Real(0), Real(0)};
    }
  }
  block.inverse(total);
  turn_back(total, a.rotation, block.place(), block.share());
  __syncthreads();
  Real* const line = reinterpret_cast<Real*>(shared) + block.line() * 2 * block.length();
#pragma unroll
  for (int q = 0; q < odd << log2_radix; ++q) {
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
                                 .stream = stream,
                                 .starts_early = true},
                                arguments);
}

std::int64_t row_count(ImageRows const& a) { return std::int64_t(a.chunk.units) * a.chunk.images * a.rows0 * a.rows1; }

// visit.template operator()<cyclic>()
template <typename Visit>
void visit_cyclic(bool cyclic, Visit&& visit) {
  if (cyclic)
    visit.template operator()<true>();
  else
    visit.template operator()<false>();
}

// visit.template operator()<Real, log2_radix, odd, fixed>(): benched lengths are compiled as constants.
template <typename Visit>
void visit_fixed(Precision precision, Length length, Visit&& visit) {
  switch (precision == Precision::single && length.odd == 1 ? length.log2 : 0) {
    case 6:
      return visit.template operator()<float, log2_radix(Length{1, 6}), 1, 6>();
    case 7:
      return visit.template operator()<float, log2_radix(Length{1, 7}), 1, 7>();
    case 8:
      return visit.template operator()<float, log2_radix(Length{1, 8}), 1, 8>();
    default:
      return visit_length(precision, length,
                          [&]<typename Real, int radix, int odd> { visit.template operator()<Real, radix, odd, 0>(); });
  }
}

}  // namespace

void transform_rows(ImageRows const& a, Precision precision, cudaStream_t stream) {
  visit_fixed(precision, a.transform.length, [&]<typename Real, int radix, int odd, int fixed> {
    visit_cyclic(a.frequencies, [&]<bool cyclic> {
      launch_lines<transform_images_kernel<Real, radix, odd, fixed, cyclic>, Real>("cuda.transformed rows", a.transform,
                                                                                   row_count(a), a, stream);
    });
  });
}

void restore_rows(ImageRows const& a, Precision precision, cudaStream_t stream) {
  visit_fixed(precision, a.transform.length, [&]<typename Real, int radix, int odd, int fixed> {
    visit_cyclic(a.frequencies, [&]<bool cyclic> {
      launch_lines<restore_images_kernel<Real, radix, odd, fixed, cyclic>, Real>("cuda.transformed rows back",
                                                                                 a.transform, row_count(a), a, stream);
    });
  });
}

void transform_rows(FilterRows const& a, Precision compute, Precision stored, cudaStream_t stream) {
  char const* const name = "cuda.transformed filter rows";
  std::int64_t const rows = std::int64_t(a.chunk.units) * a.axes[0].count() * a.axes[1].count();
  visit_length(compute, a.transform.length, [&]<typename Real, int radix, int odd> {
    visit_cyclic(a.frequencies, [&]<bool cyclic> {
      if (stored == compute)
        launch_lines<transform_filters_kernel<Real, Real, radix, odd, cyclic>, Real>(name, a.transform, rows, a,
                                                                                     stream);
      else
        launch_lines<transform_filters_kernel<Real, float, radix, odd, cyclic>, Real>(name, a.transform, rows, a,
                                                                                      stream);
    });
  });
}

void restore_rows(FilterRows const& a, Precision precision, cudaStream_t stream) {
  std::int64_t const rows = a.chunk.units * a.axes[0].filter * a.axes[1].filter;
  visit_length(precision, a.transform.length, [&]<typename Real, int radix, int odd> {
    visit_cyclic(a.frequencies, [&]<bool cyclic> {
      launch_lines<restore_filters_kernel<Real, radix, odd, cyclic>, Real>("cuda.transformed filter rows back",
                                                                           a.transform, rows, a, stream);
    });
  });
}

void multiply_rows(RowProduct const& p, Precision precision, cudaStream_t stream) {
  visit_length(precision, p.rows.transform.length, [&]<typename Real, int radix, int odd> {
    launch_lines<multiply_rows_kernel<Real, radix, odd>, Real>("cuda.transformed one axis", p.rows.transform,
                                                               row_count(p.rows), p, stream);
  });
}

void filter_gradient(RowGradient const& p, Precision precision, cudaStream_t stream) {
  visit_length(precision, p.x.transform.length, [&]<typename Real, int radix, int odd> {
    launch_lines<row_gradient_kernel<Real, radix, odd>, Real>("cuda.transformed filter gradient of one axis",
                                                              p.x.transform, p.x.chunk.units, p, stream);
  });
}

}  // namespace faltung::long_conv::cuda::transformed
