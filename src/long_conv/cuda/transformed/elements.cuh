// Real elements of tensors as the complex numbers of row transforms, and back: the points of a line that a thread
// holds, of any dtype and stride, loads of a thread all under way together.
#pragma once
#include "cuda/element.cuh"
#include "long_conv/cuda/transformed/block_transform.cuh"

namespace faltung::long_conv::cuda::transformed {

using faltung::cuda::thread_visit, faltung::cuda::thread_widened, faltung::cuda::thread_rounded;

// ---- chunks and positions ----

// Element offset of image `image` of unit `unit` of a chunk.
__device__ inline std::int64_t image_offset(Chunk const& chunk, Strides const& strides, int unit, int image) {
  auto const at = std::uint32_t(chunk.first_channel + unit), sample = chunk.channels.quotient(at);
  return (chunk.first_sample + sample + chunk.by_pieces.quotient(chunk.first_image + image)) * strides.batch +
         chunk.channels.remainder(at, sample) * strides.channel;
}
__device__ inline std::int64_t channel_of(Chunk const& chunk, int unit) {
  auto const at = std::uint32_t(chunk.first_channel + unit);
  return chunk.channels.remainder(at, chunk.channels.quotient(at));
}

// The i-th position that may hold a tap.
__device__ inline int position(TapAxis const& axis, int i) {
  return i < axis.head ? i : axis.positions - axis.tail + (i - axis.head);
}
__device__ inline bool is_tap(TapAxis const& axis, int position) {
  return position < axis.head || position >= axis.positions - axis.tail;
}

// The taps at a position: first, first + extent, ... while below the filter's extent where the axis is circular, first
// alone (if it exists) otherwise.
__device__ inline std::int64_t first_tap(TapAxis const& axis, int position) {
  std::int64_t tap = (position < axis.head ? position : position - axis.positions) + axis.centre;
  if (axis.circular) {
    if (tap < 0) tap += axis.extent;
    if (tap >= axis.extent) tap -= axis.extent;
  }
  return tap;
}
__device__ inline bool exists(TapAxis const& axis, std::int64_t tap) { return tap >= 0 && tap < axis.filter; }
__device__ inline std::int64_t next_tap(TapAxis const& axis, std::int64_t tap) {
  return axis.circular ? tap + axis.extent : axis.filter;
}

// The positions that a tap is summed from: none where it meets no input, two where a circular axis is padded. A
// negative offset's position is returned as it is; along rows its value has the other sign.
struct Spots {
  int count, at[2];
  bool negative[2];
};
__device__ inline Spots spots_of(TapAxis const& axis, std::int64_t tap) {
  std::int64_t offset = tap - axis.centre;
  if (axis.circular) {
    offset %= axis.extent;
    if (offset < 0) offset += axis.extent;
    int const at = int(offset);
    if (axis.exact || at == 0) return {1, {at, 0}, {false, false}};
    return {2, {at, axis.positions - axis.extent + at}, {false, true}};
  }
  if (offset >= axis.extent || offset <= -axis.extent) return {0, {}, {}};
  bool const negative = offset < 0;
  return {1, {int(negative ? offset + axis.positions : offset), 0}, {negative, false}};
}

// ---- images ----

// Points index(q) and index(q) + M of a row whose element 0 is `row`.
template <typename Real, int elements>
__device__ inline void load_image(Complex<Real> (&v)[elements], void const* data, Dtype dtype, std::int64_t row,
                                  std::int64_t stride, int extent, int first, int step, int half) {
  thread_visit(dtype, [&]<typename T>(T) {
    T const* const from = static_cast<T const*>(data) + row + first * stride;
    std::int64_t const distance = step * stride;
    T low[elements], high[elements];
    bool const folded = extent > half;
#pragma unroll
    for (int q = 0; q < elements; ++q) low[q] = first + q * step < extent ? from[q * distance] : T(0.0f);
    if (folded) {
#pragma unroll
      for (int q = 0; q < elements; ++q)
        high[q] = first + q * step + half < extent ? from[half * stride + q * distance] : T(0.0f);
    }
#pragma unroll
    for (int q = 0; q < elements; ++q)
      v[q] = {thread_widened<Real>(low[q]), folded ? -thread_widened<Real>(high[q]) : Real(0)};
  });
}

// The opposite of load_image, cropped to the extent; adds shortcut times x. v is turned back already.
template <typename Real, int elements>
__device__ inline void store_image(Complex<Real> const (&v)[elements], ImageRows const& a, std::int64_t to_row,
                                   std::int64_t from_row, std::int64_t channel, int first, int step, int half) {
  std::int64_t const to_stride = a.to.strides.spatial[2], from_stride = a.from.strides.spatial[2];
  Real const shortcut =
      a.shortcut.data ? faltung::cuda::thread_load<Real>(a.shortcut.data, a.shortcut_dtype, channel * a.shortcut.stride)
                      : Real(0);
  thread_visit(a.dtype, [&]<typename T>(T) {
    T* const to = static_cast<T*>(a.to.data) + to_row + first * to_stride;
    T const* const from = static_cast<T const*>(a.from.data) + from_row + first * from_stride;
    std::int64_t const to_distance = step * to_stride, from_distance = step * from_stride;
    // Elements of the first half of the line, or of the second.
    auto const store = [&](bool second) {
      int const base = second ? half : 0;
#pragma unroll
      for (int q = 0; q < elements; ++q) {
        if (first + q * step + base >= a.extent) continue;
        Real value = second ? -v[q].im : v[q].re;
        if (a.shortcut.data) value += shortcut * thread_widened<Real>(from[base * from_stride + q * from_distance]);
        to[base * to_stride + q * to_distance] = thread_rounded<T>(value);
      }
    };
    store(false);
    if (a.extent > half) store(true);
  });
}

// The same into sums of the type of computation.
template <typename Real, int elements>
__device__ inline void add_image(Complex<Real> const (&v)[elements], View const& to, std::int64_t row, int extent,
                                 int first, int step, int half) {
  std::int64_t const stride = to.strides.spatial[2];
  Real* const sums = static_cast<Real*>(to.data) + row + first * stride;
#pragma unroll
  for (int q = 0; q < elements; ++q) {
    if (first + q * step < extent) sums[q * step * stride] += v[q].re;
    if (first + q * step + half < extent) sums[(half + q * step) * stride] -= v[q].im;
  }
}

// ---- filters ----

// Sums of the taps at positions index(q) and index(q) + half along rows, over the taps at the positions at0 and at1 of
// the outer axes. `axis2` is the axis along rows.
template <typename Real, int elements>
__device__ inline void load_taps(Complex<Real> (&v)[elements], FilterRows const& a, TapAxis const& axis2,
                                 std::int64_t unit_offset, int at0, int at1, int first, int step, int half) {
  auto const &axis0 = a.axes[0], &axis1 = a.axes[1];
  auto const& s = a.from.strides.spatial;
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = {Real(0), Real(0)};
  for (std::int64_t m0 = first_tap(axis0, at0); exists(axis0, m0); m0 = next_tap(axis0, m0))
    for (std::int64_t m1 = first_tap(axis1, at1); exists(axis1, m1); m1 = next_tap(axis1, m1)) {
      std::int64_t const row = unit_offset + m0 * s[0] + m1 * s[1];
      thread_visit(a.dtype, [&]<typename T>(T) {
        T const* const from = static_cast<T const*>(a.from.data) + row;
        if (!axis2.circular && s[2] == int(s[2])) {
          // One tap a position: all loads of a thread under way together, 32-bit indices.
          int const stride = int(s[2]), centre = int(axis2.centre), taps = int(axis2.filter);
          int const tail = axis2.positions - axis2.tail;
          T low[elements], high[elements];
          auto const load = [&](int n) {
            int const m = n + centre - (n < axis2.head ? 0 : axis2.positions);
            bool const taken = (n < axis2.head || n >= tail) && unsigned(m) < unsigned(taps);
            return taken ? from[std::int64_t(m) * stride] : T(0.0f);
          };
#pragma unroll
          for (int q = 0; q < elements; ++q) low[q] = load(first + q * step), high[q] = load(first + q * step + half);
#pragma unroll
          for (int q = 0; q < elements; ++q) {
            Real const a = thread_widened<Real>(low[q]), b = thread_widened<Real>(high[q]);
            v[q] = v[q] +
                   Complex<Real>{first + q * step < axis2.head ? a : -a, first + q * step + half < axis2.head ? -b : b};
          }
          return;
        }
        auto const sum = [&](int n) {
          if (!is_tap(axis2, n)) return Real(0);
          std::int64_t m2 = first_tap(axis2, n);
          Real value = exists(axis2, m2) ? thread_widened<Real>(from[m2 * s[2]]) : Real(0);
          if (axis2.circular)
            for (m2 += axis2.extent; m2 < axis2.filter; m2 += axis2.extent)
              value += thread_widened<Real>(from[m2 * s[2]]);
          return n < axis2.head ? value : -value;
        };
#pragma unroll
        for (int q = 0; q < elements; ++q) {
          int const n = first + q * step;
          v[q] = v[q] + Complex<Real>{sum(n), -sum(n + half)};
        }
      });
    }
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = v[q] * Real(a.scale);
}

// dk of one row of taps from the real line that its positions hold: line[2M], shared or global.
template <typename Real, typename Line>
__device__ inline void store_taps(FilterRows const& a, std::int64_t row, Line const& line, std::int64_t first,
                                  std::int64_t step) {
  thread_visit(a.dtype, [&]<typename T>(T) {
    T* const to = static_cast<T*>(a.to.data) + row;
    for (std::int64_t m = first; m < a.axes[2].filter; m += step) {
      auto const spots = spots_of(a.axes[2], m);
      Real sum = 0;
      for (int i = 0; i < spots.count; ++i) sum += spots.negative[i] ? -line(spots.at[i]) : line(spots.at[i]);
      to[m * a.to.strides.spatial[2]] = thread_rounded<T>(sum * Real(a.scale));
    }
  });
}

// dk of one axis: the outer ones have one point, so a row of taps is either all of the line or meets no input.
template <typename Real, typename Line>
__device__ inline void store_single_axis(FilterRows const& a, int unit, Line const& line, std::int64_t first,
                                         std::int64_t step) {
  std::int64_t const from = image_offset(a.chunk, a.to.strides, unit, 0);
  for (std::int64_t m0 = 0; m0 < a.axes[0].filter; ++m0)
    for (std::int64_t m1 = 0; m1 < a.axes[1].filter; ++m1) {
      std::int64_t const row = from + m0 * a.to.strides.spatial[0] + m1 * a.to.strides.spatial[1];
      if (spots_of(a.axes[0], m0).count && spots_of(a.axes[1], m1).count)
        store_taps<Real>(a, row, line, first, step);
      else
        store_taps<Real>(
            a, row, [](int) { return Real(0); }, first, step);
    }
}

// ---- turning by exp(-i pi n / 2M), and back ----

template <typename Real, int elements>
__device__ inline void turn(Complex<Real> (&v)[elements], void const* rotation, int first, int step) {
  auto const* const by = static_cast<Complex<Real> const*>(rotation) + first;
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = v[q] * by[q * step];
}
template <typename Real, int elements>
__device__ inline void turn_back(Complex<Real> (&v)[elements], void const* rotation, int first, int step) {
  auto const* const by = static_cast<Complex<Real> const*>(rotation) + first;
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = v[q] * conjugate(by[q * step]);
}

}  // namespace faltung::long_conv::cuda::transformed
