// Which problems the spectral kernels take. The gradient of a filter that more than eight samples share, or of filters
// per sample, is a direct product.
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

bool gradient_is_transformed(Problem const& p) {
  return p.sharing == FilterSharing::shared && p.batch <= 8 &&
         gradient_shared_bytes(padded_extent(p)) <= std::size_t(faltung::cuda::shared_memory_budget());
}

}  // namespace

char const* reject(Problem const& p) {
  if (p.x_dtype != FALTUNG_BF16) return "takes bfloat16: its fp16 operands cost too much of the precision of others";
  if (p.k_dtype != p.x_dtype) return "takes filters of the dtype of x";
  if (p.axes[0].extent != 1 || p.axes[0].filter != 1 || p.axes[0].centre != 0 || p.rank < 2) return "takes two axes";
  auto const rows = p.axes[1].extent, columns = p.axes[2].extent;
  if (rows > 64 || columns > 64) return "takes up to 64 points an axis";
  if (rows <= 24 || columns <= 24) return "direct products are faster up to 24 points an axis";
  for (auto const& axis : p.axes) {
    if (axis.boundary == Boundary::causal) return "a scale that looks at a whole image is not causal to the bit";
    if (axis.boundary == Boundary::circular && axis.filter > axis.extent)
      return "takes circular filters of at most the extent: longer ones add up taps";
  }
  // Forward and backward of 8 x 768 images, measured: direct 0.042 ms at 7 row lags of 32 points and 0.0015 for each
  // further one, this 0.072 to 0.079; at 64 points 0.236, 0.0095 and 0.437.
  if (toeplitz::make_shape(p).row_lags() <= 24) return "direct products are faster for up to 24 row lags";
  if (shared_bytes(padded_extent(p)) > std::size_t(faltung::cuda::shared_memory_budget()))
    return "the spectra of eight images and their filter exceed the device's shared memory";
  if (p.direction == Direction::backward && !gradient_is_transformed(p)) return toeplitz::reject(p);
  return nullptr;
}

std::string policy(Problem const& p) {
  int const n = padded_extent(p);
  std::string text =
      concatenate("DFT of ", 2 * n,
                  " points over columns, Toeplitz products over rows, fp16 operands under powers of two per "
                  "image and per filter, fp32 sums; persistent blocks of 8 images, ",
                  shared_bytes(n), " bytes of shared memory");
  if (p.direction == Direction::backward)
    text += gradient_is_transformed(p)
                ? concatenate("; dk likewise, 32 frequencies at a time, ", gradient_shared_bytes(n), " bytes")
                : "; dk direct: " + toeplitz::policy(p);
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
  auto rest = a;
  rest.dx = {};
  if (a.dk.data && gradient_is_transformed(p)) {
    filter_gradient(p, a, static_cast<cudaStream_t>(a.runtime.stream));
    rest.dk = {};
  }
  if (rest.dk.data || rest.dshortcut.data) toeplitz::backward(p, rest);
}

}  // namespace faltung::long_conv::cuda::spectral
