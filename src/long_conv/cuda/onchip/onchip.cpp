// Which problems cuda.onchip takes, and the launches of a call.
#include "long_conv/cuda/onchip/onchip.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/onchip/launch.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/transformed/plan.hpp"

namespace faltung::long_conv::cuda::onchip {
namespace {

constexpr std::int64_t most_units = 4096;  // at a time: 256 MB of spectra of 64 x 64 points

// Points an axis of the kernels that serve a grid.
int padded_extent(Problem const& p) {
  return std::max(p.axes[1].extent, p.axes[2].extent) <= small_points ? small_points : points;
}

// Units and their images, as much of the call as goes through the workspace at once.
struct Plan {
  int extent;
  std::int64_t units, images, chunk_units;

  explicit Plan(Problem const& p) : extent(padded_extent(p)) {
    bool const shared = p.sharing == FilterSharing::shared;
    units = shared ? p.channels : p.batch * p.channels;
    images = shared ? p.batch : 1;
    chunk_units = std::clamp<std::int64_t>((std::int64_t(1) << 30) / std::max<std::int64_t>(1, images), 1,
                                           std::clamp<std::int64_t>(units, 1, most_units));
  }
  // None where the kernels transform filters themselves.
  std::size_t spectra_bytes() const {
    return extent == small_points ? 0 : chunk_units * (2 * extent * extent) * 2 * sizeof(float);
  }
  std::size_t sums_bytes(Direction direction) const {
    bool const any = extent == points && direction == Direction::backward && images > images_per_sum;
    return any ? std::size_t(most_gradient_blocks) * spectrum_size * 2 * sizeof(float) : 0;
  }
};

class Call {
 public:
  Call(Problem const& p, Runtime const& runtime)
      : p_(p),
        plan_(p),
        spectra_(runtime.workspace),
        sums_(static_cast<char*>(runtime.workspace) + plan_.spectra_bytes()),
        stream_(static_cast<cudaStream_t>(runtime.stream)) {}

  void convolve(ConstView const& from, ConstView const& k, ConstVector const& shortcut, View const& to,
                bool conjugate) const {
    each_chunk([&](transformed::Chunk const& chunk) {
      Product const product{.grid = grid(chunk),
                            .from = from,
                            .to = to,
                            .shortcut = shortcut,
                            .shortcut_dtype = p_.shortcut_dtype,
                            .spectra = spectra_,
                            .conjugate = conjugate};
      Filters const filters{filter_rows(chunk, k, {}), spectra_};
      if (plan_.extent == small_points) return multiply_small(product, filters.rows, stream_);
      transform_filters(filters, stream_);
      multiply(product, stream_);
    });
  }

  void differentiate(BackwardArgs const& a) const {
    each_chunk([&](transformed::Chunk const& chunk) {
      Gradient const gradient{.grid = grid(chunk),
                              .x = a.x,
                              .dy = a.dy,
                              .dx = a.dx,
                              .shortcut = a.shortcut,
                              .shortcut_dtype = p_.shortcut_dtype,
                              .filter = filter_rows(chunk, {}, a.dk),
                              .spectra = spectra_,
                              .sums = sums_};
      if (plan_.extent == small_points) return small_gradients(gradient, a.k, stream_);
      if (a.dx.data) transform_filters({filter_rows(chunk, a.k, {}), spectra_}, stream_);
      gradients(gradient, stream_);
    });
  }

 private:
  template <typename Body>
  void each_chunk(Body&& body) const {
    for (std::int64_t unit = 0; unit < plan_.units; unit += plan_.chunk_units)
      body(transformed::Chunk{.channels = p_.channels,
                              .first_sample = unit / p_.channels,
                              .first_channel = unit % p_.channels,
                              .units = int(std::min(plan_.chunk_units, plan_.units - unit)),
                              .images = int(plan_.images),
                              .by_images = plan_.images});
  }
  Grid grid(transformed::Chunk const& chunk) const { return {int(p_.axes[1].extent), int(p_.axes[2].extent), chunk}; }
  transformed::FilterRows filter_rows(transformed::Chunk const& chunk, ConstView const& from, View const& to) const {
    auto const axis = [&](int i) {
      auto result = transformed::make_axis(p_.axes[i], true, false, false);
      result.positions = i == 0 ? 1 : 2 * plan_.extent;
      return result;
    };
    return {.transform = {},
            .rotation = nullptr,
            .frequencies = nullptr,
            .spectrum_points = 0,
            .spectra = nullptr,
            .unit_stride = 2 * plan_.extent * plan_.extent,
            .axes = {axis(0), axis(1), axis(2)},
            .by_rows = {},
            .by_rows1 = {},
            .by_tap_rows = {},
            .by_tap_rows1 = {},
            .chunk = chunk,
            .from = from,
            .to = to,
            .dtype = p_.k_dtype,
            .scale = 1.0 / (2 * plan_.extent * plan_.extent)};
  }

  Problem const& p_;
  Plan const plan_;
  void* const spectra_;
  void* const sums_;
  cudaStream_t const stream_;
};

}  // namespace

char const* reject(Problem const& p) {
  if (p.x_dtype != FALTUNG_F32) return "takes fp32";
  if (p.axes[0].extent != 1 || p.axes[0].filter != 1 || p.axes[0].centre != 0 || p.rank < 2) return "takes two axes";
  auto const rows = p.axes[1].extent, columns = p.axes[2].extent;
  if (rows > points || columns > points) return "takes up to 64 points an axis";
  int const extent = padded_extent(p);
  // 14 x 14, 8 x 768 images: 0.061 ms here, where rows leave no boundary of sixteen bytes.
  if (extent == small_points && std::min(rows, columns) < small_points)
    return "direct products are faster below 16 points";
  if (extent == points && std::min(rows, columns) <= extent / 2) return "takes 16 or 33 to 64 points along both axes";
  for (auto const& axis : p.axes) {
    if (axis.boundary == Boundary::causal && p.direction == Direction::forward)
      return "transforms whole axes: not causal to the bit";
    if (axis.filter >= std::int64_t(1) << 24 || std::abs(axis.centre) >= std::int64_t(1) << 30)
      return "takes fewer than 2^24 taps an axis, with a centre below 2^30";
  }
  Plan const plan(p);
  if (plan.units >= std::int64_t(1) << 30 || plan.images >= std::int64_t(1) << 30)
    return "takes fewer than 2^30 filters and images";
  std::size_t const shared = p.direction == Direction::backward ? gradients_shared_bytes() : filters_shared_bytes();
  if (extent == points && shared > std::size_t(faltung::cuda::shared_memory_budget()))
    return "the spectrum of a filter in fp64 exceeds the device's shared memory";
  return nullptr;
}

std::string policy(Problem const& p) {
  Plan const plan(p);
  return concatenate("fp32 transforms of ", 2 * plan.extent, " x ", 2 * plan.extent, " points, padded, ",
                     plan.extent == points ? "an image at a time in shared memory" : "lines in registers of a lane",
                     ", of filters in fp64; ", plan.chunk_units, " filters at a time, ", workspace(p),
                     " bytes of workspace");
}

std::size_t workspace(Problem const& p) {
  Plan const plan(p);
  return plan.spectra_bytes() + plan.sums_bytes(p.direction);
}

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  Call(p, a.runtime).convolve(a.x, a.k, a.shortcut, a.y, false);
}

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  if (a.dk.data)
    Call(p, a.runtime).differentiate(a);
  else if (a.dx.data)
    Call(p, a.runtime).convolve(a.dy, a.k, a.shortcut, a.dx, true);
  if (a.dshortcut.data) shortcut_gradient(p, a, static_cast<cudaStream_t>(a.runtime.stream));
}

}  // namespace faltung::long_conv::cuda::onchip
