// Transforms of 8 to 4096 points by a block: each thread holds eight points of one line in registers, and a pass of
// radix 8 exchanges them with the other threads of the line through shared memory, in place. Forward is decimation in
// frequency, inverse decimation in time, so spectra stay in the order of the digits and nothing is ever reordered.
// Element q of a thread is point, or afterwards slot, place + q length / 8: neighbouring threads, neighbouring
// elements.
#pragma once
#include "long_conv/cuda/transformed/complex.cuh"
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {

// Neighbouring threads: neighbouring points of a line, or the same point of neighbouring lines.
enum class Lines { contiguous, interleaved };

// `fixed`: log2 of the length where it is known when compiling, else 0.
template <typename Real, Lines layout, int fixed = 0>
class BlockTransform {
 public:
  __device__ BlockTransform(Transform const& transform, void* shared)
      : log2_length_(fixed ? fixed : transform.log2_length),
        log2_lines_(transform.log2_lines),
        shared_(static_cast<Complex<Real>*>(shared)),
        twiddles_(static_cast<Complex<Real> const*>(transform.twiddles)) {
    int const thread = int(threadIdx.x), log2_share = log2_length() - 3;
    if constexpr (layout == Lines::contiguous) {
      line_ = thread >> log2_share;
      place_ = thread & (share() - 1);
    } else {
      line_ = thread & ((1 << log2_lines_) - 1);
      place_ = thread >> log2_lines_;
    }
  }

  __device__ int log2_length() const { return fixed ? fixed : log2_length_; }
  __device__ int length() const { return 1 << log2_length(); }
  __device__ int share() const { return 1 << (log2_length() - 3); }  // threads of a line
  __device__ int lines() const { return 1 << log2_lines_; }
  __device__ int line() const { return line_; }
  __device__ int place() const { return place_; }
  __device__ int index(int q) const { return place_ + q * share(); }

  // padded: the second half of the points, elements 4 to 7, is zero.
  template <bool padded = false>
  __device__ void forward(Complex<Real> (&v)[8]) const {
    transform_8<Sense::forward, padded>(v);
#pragma unroll
    for (int stride = share(); stride > 1; stride >>= 3) {
      auto const* const twiddle = twiddles_ + (length() - 8 * stride) + (place_ & (stride - 1));
#pragma unroll
      for (int q = 1; q < 8; ++q) v[q] = v[q] * twiddle[(q - 1) * stride];
      write(v, first(stride), stride);
      __syncthreads();
      if (stride <= 8) {
        read(v, 8 * place_, 1);
        finish<Sense::forward>(v, stride);
      } else {
        read(v, first(stride >> 3), stride >> 3);
        transform_8<Sense::forward>(v);
      }
    }
  }

  // Not divided by the length. May follow forward() without a barrier, and forward() may follow it.
  __device__ void inverse(Complex<Real> (&v)[8]) const {
    int const last_radix = 2 << (log2_length() - 1) % 3;
    finish<Sense::inverse>(v, last_radix);
    if (log2_length() == 3) return;
    write(v, 8 * place_, 1);
#pragma unroll
    for (int stride = last_radix; stride <= share(); stride <<= 3) {
      __syncthreads();
      read(v, first(stride), stride);
      auto const* const twiddle = twiddles_ + (length() - 8 * stride) + (place_ & (stride - 1));
#pragma unroll
      for (int q = 1; q < 8; ++q) v[q] = v[q] * conjugate(twiddle[(q - 1) * stride]);
      transform_8<Sense::inverse>(v);
      if (stride < share()) write(v, first(stride), stride);
    }
  }

  // The frequency in slot index(q).
  __device__ int frequency(int q) const {
    int rest = 8 * place_ + q, result = 0, scale = 1;
    for (int stride = share();; stride >>= 3) {
      result += rest / stride * scale;
      rest %= stride;
      scale *= 8;
      if (stride <= 8) return result + rest * scale;
    }
  }

 private:
  // One element of padding for each eight keeps the strided accesses of a pass in different banks.
  __device__ int at(int point) const {
    int const padded = point + (point >> 3);
    if constexpr (layout == Lines::contiguous) return line_ * (length() + share()) + padded;
    return (padded << log2_lines_) + line_;
  }
  __device__ int first(int stride) const { return ((place_ & ~(stride - 1)) << 3) + (place_ & (stride - 1)); }

  __device__ void write(Complex<Real> const (&v)[8], int first, int stride) const {
#pragma unroll
    for (int q = 0; q < 8; ++q) shared_[at(first + q * stride)] = v[q];
  }
  __device__ void read(Complex<Real> (&v)[8], int first, int stride) const {
#pragma unroll
    for (int q = 0; q < 8; ++q) v[q] = shared_[at(first + q * stride)];
  }

  template <Sense sense>
  __device__ static void finish(Complex<Real> (&v)[8], int radix) {
    if (radix == 8) {
      transform_8<sense>(v);
    } else if (radix == 4) {
      transform_4<sense>(v[0], v[1], v[2], v[3]);
      transform_4<sense>(v[4], v[5], v[6], v[7]);
    } else {
#pragma unroll
      for (int q = 0; q < 8; q += 2) transform_2(v[q], v[q + 1]);
    }
  }

  int log2_length_, log2_lines_, line_, place_;
  Complex<Real>* shared_;
  Complex<Real> const* twiddles_;
};

}  // namespace faltung::long_conv::cuda::transformed
