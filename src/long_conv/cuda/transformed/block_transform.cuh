// Transforms of 8 to 4096 points by a block: each thread holds eight (or sixteen) points of one line in registers, and
// a pass of that radix exchanges them with the other threads of the line through shared memory, in place. Forward is
// decimation in frequency, inverse decimation in time, so spectra stay in the order of the digits and nothing is ever
// reordered. Element q of a thread is point, or afterwards slot, place + q length / 8 (16, 4): neighbouring threads,
// neighbouring elements.
#pragma once
#include "long_conv/cuda/transformed/complex.cuh"
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {

// A length of 3 or 5 times a power of two is one pass of that radix in registers (threads hold 24 or 20 points) and 3
// or 5 transforms of the power of two side by side. `fixed`: log2 of the length where it is known when compiling, else
// 0.
template <typename Real, Lines layout, int log2_radix, int odd = 1, int fixed = 0>
class BlockTransform {
 public:
  static constexpr int elements = odd << log2_radix;
  using Elements = Complex<Real>[elements];

  __device__ BlockTransform(Transform const& transform, void* shared)
      : log2_part_(fixed ? fixed : transform.length.log2),
        log2_lines_(transform.log2_lines),
        shared_(static_cast<Complex<Real>*>(shared)),
        twiddles_(static_cast<Complex<Real> const*>(transform.twiddles)),
        odd_twiddles_(static_cast<Complex<Real> const*>(transform.odd_twiddles)) {
    int const thread = int(threadIdx.x);
    if constexpr (layout == Lines::contiguous) {
      line_ = thread >> (log2_part() - log2_radix);
      place_ = thread & (share() - 1);
    } else {
      line_ = thread & (lines() - 1);
      place_ = thread >> log2_lines();
    }
  }

  __device__ int length() const { return odd * part(); }
  __device__ int share() const { return 1 << (log2_part() - log2_radix); }  // threads of a line
  __device__ int log2_lines() const { return fixed ? fixed_lines : log2_lines_; }
  __device__ int lines() const { return 1 << log2_lines(); }
  __device__ int line() const { return line_; }
  __device__ int place() const { return place_; }
  __device__ int index(int q) const { return place_ + q * share(); }

  // padded: the second half of the points, and of the elements, is zero.
  template <bool padded = false>
  __device__ void forward(Elements& v) const {
    static_assert(odd == 1 || !padded);
    if constexpr (odd > 1) {
#pragma unroll
      for (int q = 0; q < radix; ++q) {
        odd_pass<Sense::forward>(v, q);
#pragma unroll
        for (int t = 1; t < odd; ++t) v[t * radix + q] = v[t * radix + q] * odd_twiddles_[(t - 1) * part() + index(q)];
      }
    }
    transform_parts<Sense::forward, padded>(v);
#pragma unroll
    for (int stride = share(); stride > 1; stride >>= log2_radix) {
      multiply_twiddles<Sense::forward>(v, stride);
      write(v, first(stride), stride);
      __syncthreads();
      if (stride <= radix) {
        read(v, radix * place_, 1);
        finish<Sense::forward>(v, stride);
      } else {
        read(v, first(stride >> log2_radix), stride >> log2_radix);
        transform_parts<Sense::forward, false>(v);
      }
    }
  }

  // Not divided by the length. May follow forward() without a barrier, and forward() may follow it.
  __device__ void inverse(Elements& v) const {
    int const last_radix = 2 << (log2_part() - 1) % log2_radix;
    finish<Sense::inverse>(v, last_radix);
    if (log2_part() > log2_radix) {
      write(v, radix * place_, 1);
#pragma unroll
      for (int stride = last_radix; stride <= share(); stride <<= log2_radix) {
        __syncthreads();
        read(v, first(stride), stride);
        multiply_twiddles<Sense::inverse>(v, stride);
        transform_parts<Sense::inverse, false>(v);
        if (stride < share()) write(v, first(stride), stride);
      }
    }
    if constexpr (odd > 1) {
#pragma unroll
      for (int q = 0; q < radix; ++q) {
#pragma unroll
        for (int t = 1; t < odd; ++t)
          v[t * radix + q] = v[t * radix + q] * conjugate(odd_twiddles_[(t - 1) * part() + index(q)]);
        odd_pass<Sense::inverse>(v, q);
      }
    }
  }

 private:
  static constexpr int radix = 1 << log2_radix;
  static constexpr int fixed_lines = fixed ? log2_block_lines(layout == Lines::contiguous, Length{1, fixed}) : 0;

  __device__ int log2_part() const { return fixed ? fixed : log2_part_; }
  __device__ int part() const { return 1 << log2_part(); }  // points of the transforms of a power of two

  // One element of padding for each eight (sixteen) keeps the strided accesses of a pass in different banks.
  __device__ int at(int point) const {
    int const padded = point + (point >> log2_radix);
    if constexpr (layout == Lines::contiguous) return line_ * (part() + share()) + padded;
    return (padded << log2_lines()) + line_;
  }
  // at(first + distance) - at(first) where distance is a multiple of a pass' stride and first its first point: no carry
  // from the low bits.
  __device__ int ahead(int distance) const {
    int const padded = distance + (distance >> log2_radix);
    return layout == Lines::contiguous ? padded : padded << log2_lines();
  }
  __device__ int first(int stride) const { return ((place_ & ~(stride - 1)) << log2_radix) + (place_ & (stride - 1)); }

  __device__ void write(Elements const& v, int first, int stride) const {
    auto* const to = shared_ + at(first);
#pragma unroll
    for (int t = 0; t < odd; ++t)
#pragma unroll
      for (int q = 0; q < radix; ++q)
        to[t * ((part() + share()) << log2_lines()) + ahead(q * stride)] = v[t * radix + q];
  }
  __device__ void read(Elements& v, int first, int stride) const {
    auto const* const from = shared_ + at(first);
#pragma unroll
    for (int t = 0; t < odd; ++t)
#pragma unroll
      for (int q = 0; q < radix; ++q)
        v[t * radix + q] = from[t * ((part() + share()) << log2_lines()) + ahead(q * stride)];
  }

  template <Sense sense>
  __device__ void multiply_twiddles(Elements& v, int stride) const {
    auto const* const twiddle = twiddles_ + (part() - radix * stride) + (place_ & (stride - 1));
#pragma unroll
    for (int q = 1; q < radix; ++q) {
      auto const root = twiddle[(q - 1) * stride];
#pragma unroll
      for (int t = 0; t < odd; ++t)
        v[t * radix + q] = v[t * radix + q] * (sense == Sense::forward ? root : conjugate(root));
    }
  }

  template <Sense sense>
  __device__ static void odd_pass(Elements& v, int q) {
    if constexpr (odd == 3) transform_3<sense>(v[q], v[radix + q], v[2 * radix + q]);
    if constexpr (odd == 5)
      transform_5<sense>(v[q], v[radix + q], v[2 * radix + q], v[3 * radix + q], v[4 * radix + q]);
  }

  template <Sense sense, bool padded>
  __device__ static void transform_parts(Elements& v) {
#pragma unroll
    for (int t = 0; t < odd; ++t) {
      auto* const part = v + t * radix;
      if constexpr (log2_radix == 4)
        transform_16<sense, padded>(part);
      else if constexpr (log2_radix == 3)
        transform_8<sense, padded>(part);
      else
        transform_4<sense>(part[0], part[1], part[2], part[3]);
    }
  }

  template <Sense sense>
  __device__ static void finish(Elements& v, int last_radix) {
    if (last_radix == radix) {
      transform_parts<sense, false>(v);
    } else if (last_radix == 8) {
#pragma unroll
      for (int q = 0; q < elements; q += 8) transform_8<sense>(v + q);
    } else if (last_radix == 4) {
#pragma unroll
      for (int q = 0; q < elements; q += 4) transform_4<sense>(v[q], v[q + 1], v[q + 2], v[q + 3]);
    } else {
#pragma unroll
      for (int q = 0; q < elements; q += 2) transform_2(v[q], v[q + 1]);
    }
  }

  int log2_part_, log2_lines_, line_, place_;
  Complex<Real>* shared_;
  Complex<Real> const* twiddles_;
  Complex<Real> const* odd_twiddles_;
};

}  // namespace faltung::long_conv::cuda::transformed
