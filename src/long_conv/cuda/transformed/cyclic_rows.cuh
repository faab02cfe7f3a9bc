// Rows of circular axes of 2M points exactly, as the M complex numbers x[2n] + i x[2n + 1], and their spectra: the
// frequencies 0 .. M of 2M, in order.
#pragma once
#include "long_conv/cuda/transformed/elements.cuh"

namespace faltung::long_conv::cuda::transformed {

// Points 2n and 2n + 1, and back.
template <typename Real, int elements>
__device__ inline void load_cyclic_image(Complex<Real> (&v)[elements], void const* data, Dtype dtype, std::int64_t row,
                                         std::int64_t stride, int extent, int first, int step) {
  thread_visit(dtype, [&]<typename T>(T) {
    T const* const from = static_cast<T const*>(data) + row + 2 * first * stride;
    std::int64_t const distance = 2 * step * stride;
    T even[elements], odd[elements];
#pragma unroll
    for (int q = 0; q < elements; ++q) {
      bool const inside = 2 * (first + q * step) < extent;
      even[q] = inside ? from[q * distance] : T(0.0f);
      odd[q] = inside ? from[q * distance + stride] : T(0.0f);
    }
#pragma unroll
    for (int q = 0; q < elements; ++q) v[q] = {thread_widened<Real>(even[q]), thread_widened<Real>(odd[q])};
  });
}
template <typename Real, int elements>
__device__ inline void store_cyclic_image(Complex<Real> const (&v)[elements], ImageRows const& a, std::int64_t to_row,
                                          std::int64_t from_row, std::int64_t channel, int first, int step) {
  std::int64_t const to_stride = a.to.strides.spatial[2], from_stride = a.from.strides.spatial[2];
  Real const shortcut =
      a.shortcut.data ? faltung::cuda::thread_load<Real>(a.shortcut.data, a.shortcut_dtype, channel * a.shortcut.stride)
                      : Real(0);
  thread_visit(a.dtype, [&]<typename T>(T) {
    T* const to = static_cast<T*>(a.to.data) + to_row;
    T const* const from = static_cast<T const*>(a.from.data) + from_row;
#pragma unroll
    for (int q = 0; q < elements; ++q) {
      std::int64_t const n = 2 * (first + q * step);
      Real even = v[q].re, odd = v[q].im;
      if (a.shortcut.data) {
        even += shortcut * thread_widened<Real>(from[n * from_stride]);
        odd += shortcut * thread_widened<Real>(from[(n + 1) * from_stride]);
      }
      to[n * to_stride] = thread_rounded<T>(even);
      to[(n + 1) * to_stride] = thread_rounded<T>(odd);
    }
  });
}

template <typename Real, int elements>
__device__ inline void add_cyclic_image(Complex<Real> const (&v)[elements], View const& to, std::int64_t row,
                                        int extent, int first, int step) {
  std::int64_t const stride = to.strides.spatial[2];
  Real* const sums = static_cast<Real*>(to.data) + row;
#pragma unroll
  for (int q = 0; q < elements; ++q) {
    int const n = 2 * (first + q * step);
    if (n >= extent) continue;
    sums[n * stride] += v[q].re;
    sums[(n + 1) * stride] += v[q].im;
  }
}

// The taps at positions 2n and 2n + 1.
template <typename Real, int elements>
__device__ inline void load_cyclic_taps(Complex<Real> (&v)[elements], FilterRows const& a, std::int64_t unit_offset,
                                        int at0, int at1, int first, int step) {
  auto const &axis0 = a.axes[0], &axis1 = a.axes[1], &axis2 = a.axes[2];
  auto const& s = a.from.strides.spatial;
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = {Real(0), Real(0)};
  for (std::int64_t m0 = first_tap(axis0, at0); exists(axis0, m0); m0 = next_tap(axis0, m0))
    for (std::int64_t m1 = first_tap(axis1, at1); exists(axis1, m1); m1 = next_tap(axis1, m1))
      thread_visit(a.dtype, [&]<typename T>(T) {
        T const* const from = static_cast<T const*>(a.from.data) + unit_offset + m0 * s[0] + m1 * s[1];
        auto const sum = [&](int n) {
          Real value = 0;
          for (std::int64_t m2 = first_tap(axis2, n); exists(axis2, m2); m2 = next_tap(axis2, m2))
            value += thread_widened<Real>(from[m2 * s[2]]);
          return value;
        };
#pragma unroll
        for (int q = 0; q < elements; ++q) {
          int const n = 2 * (first + q * step);
          v[q] = v[q] + Complex<Real>{sum(n), sum(n + 1)};
        }
      });
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = v[q] * Real(a.scale);
}

// From the transform of x[2n] + i x[2n + 1] to the frequencies 0 .. M of x, and three elements of zeros.
template <typename Real, typename Stored, typename Block, int elements>
__device__ void store_cyclic_spectrum(Complex<Real> const (&v)[elements], Block const& block, void* shared,
                                      int const* frequencies, void const* roots, bool inside, Complex<Stored>* to) {
  int const length = block.length();
  auto* const z = static_cast<Complex<Real>*>(shared) + block.line() * length;
  __syncthreads();
#pragma unroll
  for (int q = 0; q < elements; ++q) z[frequencies[block.index(q)]] = v[q];
  __syncthreads();
  if (!inside) return;
#pragma unroll
  for (int q = 0; q < elements; ++q) {
    int const k = block.index(q);
    auto const a = z[k], b = conjugate(z[k ? length - k : 0]);
    auto const turned = (a - b) * static_cast<Complex<Real> const*>(roots)[k];
    to[k] =
        converted<Stored>(Complex<Real>{(a.re + b.re + turned.im) * Real(0.5), (a.im + b.im - turned.re) * Real(0.5)});
    if (k == 0) {
      to[length] = converted<Stored>(Complex<Real>{a.re - a.im, Real(0)});
      for (int pad = 1; pad < 4; ++pad) to[length + pad] = {};
    }
  }
}

// The opposite: spectrum(k) is that of frequency k. Leaves what block.inverse() takes.
template <typename Real, typename Block, int elements, typename Spectrum>
__device__ void load_cyclic_spectrum(Complex<Real> (&v)[elements], Block const& block, void* shared,
                                     int const* frequencies, void const* roots, Spectrum&& spectrum) {
  int const length = block.length();
  auto* const z = static_cast<Complex<Real>*>(shared) + block.line() * length;
#pragma unroll
  for (int q = 0; q < elements; ++q) {
    int const k = block.index(q);
    auto const a = spectrum(k), b = conjugate(spectrum(length - k));
    auto const turned = (a - b) * conjugate(static_cast<Complex<Real> const*>(roots)[k]);
    z[k] = {(a.re + b.re - turned.im) * Real(0.5), (a.im + b.im + turned.re) * Real(0.5)};
  }
  __syncthreads();
#pragma unroll
  for (int q = 0; q < elements; ++q) v[q] = z[frequencies[block.index(q)]];
  __syncthreads();
}

}  // namespace faltung::long_conv::cuda::transformed
