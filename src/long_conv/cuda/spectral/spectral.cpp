// Which problems the spectral kernels take.
#include "long_conv/cuda/spectral/spectral.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/spectral/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/toeplitz.hpp"

namespace faltung::long_conv::cuda::spectral {

int padded_extent(Problem const& p) { return std::max(p.axes[1].extent, p.axes[2].extent) <= 32 ? 32 : 64; }

namespace {

// Of forward, or of the larger kernel of backward.
std::size_t largest_shared_bytes(Problem const& p) {
  std::size_t const product = shared_bytes(p);
  return p.direction == Direction::forward ? product : std::max(product, gradient_shared_bytes(p));
}

// Row lags up to which direct products are faster, from times of forward and backward of 8 x 768 images (ms): direct at
// 13, 25 and 31 taps an axis 0.057, 0.080 and 0.090 on 32 points, 0.356, 0.543 and 0.594 on 64; this 0.071 in bf16 and
// 0.087 in fp16, 0.35 and 0.465 on 64; in fp32 0.226 at 7 taps, this 0.142.
int most_direct_lags(Problem const& p) {
  if (p.k_dtype == FALTUNG_F32) return 0;
  bool const fp16 = p.x_dtype == FALTUNG_F16;
  if (padded_extent(p) == 32) return fp16 ? 28 : 20;
  return fp16 ? 20 : 12;
}

}  // namespace

char const* reject(Problem const& p) {
  if (p.x_dtype == FALTUNG_F64) return "takes fp32 and inputs of 16 bits";
  if (p.k_dtype != p.x_dtype && !(p.x_dtype == FALTUNG_BF16 && p.k_dtype == FALTUNG_F32))
    return "takes filters of the dtype of x, fp32 with bfloat16";
  if (p.axes[0].extent != 1 || p.axes[0].filter != 1 || p.axes[0].centre != 0 || p.rank < 2) return "takes two axes";
  auto const rows = p.axes[1].extent, columns = p.axes[2].extent;
  if (rows > 64 || columns > 64) return "takes up to 64 points an axis";
  if (p.x_dtype == FALTUNG_F32 && padded_extent(p) > 32) return "takes up to 32 points an axis in fp32";
  if (rows <= 24 || columns <= 24) return "direct products are faster up to 24 points an axis";
  for (auto const& axis : p.axes) {
    if (axis.boundary == Boundary::causal) return "a scale that looks at a whole image is not causal to the bit";
    if (axis.boundary == Boundary::circular && axis.filter > axis.extent)
      return "takes circular filters of at most the extent: longer ones add up taps";
  }
  if (toeplitz::make_shape(p).row_lags() <= most_direct_lags(p))
    return "direct products are faster for so few row lags";
  if (largest_shared_bytes(p) > std::size_t(faltung::cuda::shared_memory_budget()))
    return "the spectra of eight images and their filter exceed the device's shared memory";
  return nullptr;
}

std::string policy(Problem const& p) {
  std::string text = concatenate("DFT of ", 2 * padded_extent(p),
                                 " points over columns, Toeplitz products over rows, fp16 operands under powers of two "
                                 "per image and per filter, fp32 sums",
                                 p.x_dtype == FALTUNG_F16   ? ", constants in two halves"
                                 : p.x_dtype == FALTUNG_F32 ? ", all operands in two halves"
                                                            : "",
                                 "; persistent blocks of 8 images, ", shared_bytes(p), " bytes of shared memory");
  if (p.direction == Direction::backward)
    text += concatenate("; dk likewise, ", p.x_dtype == FALTUNG_F32 ? 16 : 32, " frequencies at a time, ",
                        gradient_shared_bytes(p), " bytes");
  return text;
}

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  multiply(p, Product::plain, a.x, a.k, a.shortcut, a.y, static_cast<cudaStream_t>(a.runtime.stream));
}

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  if (a.dx.data)
    multiply(p, Product::transposed, a.dy, a.k, a.shortcut, a.dx, static_cast<cudaStream_t>(a.runtime.stream));
  if (a.dk.data) filter_gradient(p, a, static_cast<cudaStream_t>(a.runtime.stream));
  if (a.dshortcut.data) shortcut_gradient(p, a, static_cast<cudaStream_t>(a.runtime.stream));
}

}  // namespace faltung::long_conv::cuda::spectral
