// The forward and the gradients as convolutions of convolve.hpp.
#include "long_conv/cuda/direct/direct.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/direct/window.hpp"
#include "long_conv/cuda/reduction.hpp"

namespace faltung::long_conv::cuda::direct {
namespace {

Compute compute_of(Problem const& p) { return p.x_dtype == FALTUNG_F64 ? Compute::twice : Compute::single; }

Operand operand(ConstView const& view, Dtype dtype) { return {view.data, dtype, view.strides}; }

// The same tensor read from the end of each spatial axis.
Operand reversed(ConstView const& view, Dtype dtype, std::array<std::int64_t, 3> const& extents) {
  auto result = operand(view, dtype);
  std::int64_t offset = 0;
  for (int i = 0; i < 3; ++i) {
    offset += (extents[i] - 1) * view.strides.spatial[i];
    result.strides.spatial[i] = -view.strides.spatial[i];
  }
  result.data = static_cast<char const*>(view.data) + offset * size_of(dtype);
  return result;
}

Operand shortcut_operand(Problem const& p, ConstVector const& shortcut) {
  return {shortcut.data, p.shortcut_dtype, {.channel = shortcut.stride}};
}

Convolution forward_convolution(Problem const& p) {
  Convolution result{.batch = p.batch, .channels = p.channels, .reduction = 1, .out_dtype = p.x_dtype};
  for (int i = 0; i < 3; ++i) {
    auto const& a = p.axes[i];
    result.axes[i] = {a.extent, a.extent, a.filter, a.centre, a.boundary == Boundary::circular};
  }
  return result;
}

Convolution input_gradient_convolution(Problem const& p) {
  auto result = forward_convolution(p);
  for (int i = 0; i < 3; ++i) result.axes[i].centre = p.axes[i].filter - 1 - p.axes[i].centre;
  return result;
}

Convolution filter_gradient_convolution(Problem const& p) {
  bool const shared = p.sharing == FilterSharing::shared;
  Convolution result{
      .batch = shared ? 1 : p.batch, .channels = p.channels, .reduction = shared ? p.batch : 1, .out_dtype = p.k_dtype};
  for (int i = 0; i < 3; ++i) {
    auto const& a = p.axes[i];
    result.axes[i] = {a.filter, a.extent, a.extent, a.extent - 1 - a.centre, a.boundary == Boundary::circular};
  }
  return result;
}

WindowGradient window_gradient(Problem const& p) {
  WindowGradient result{.batch = p.batch,
                        .channels = p.channels,
                        .per_sample = p.sharing == FilterSharing::per_sample,
                        .out_dtype = p.k_dtype};
  auto const forward = forward_convolution(p);
  std::copy_n(forward.axes, 3, result.axes);
  return result;
}

}  // namespace

std::size_t workspace(Problem const& p) {
  return p.direction == Direction::backward && in_windows(p) ? gradient_workspace(window_gradient(p)) : 0;
}

char const* reject(Problem const&) { return nullptr; }

std::string policy(Problem const& p) {
  auto const text = [&](char const* name, Convolution const& c) {
    auto const [width, rows, splits] = choose_policy(c.axes, c.reduction);
    return concatenate(name, ": blocks of ", rows, " rows x ", 8 * width, " points, taps in ", splits, " shares");
  };
  if (in_windows(p)) {
    std::string const sums = p.x_dtype == FALTUNG_F64 ? "fp64" : "fp32";
    auto const text = concatenate(sums, " sums of rows of taps over tiles of 32 x 64 points");
    if (p.direction == Direction::forward) return text;
    return concatenate(text, "; dk: sums of 64 points, then fp64, in ", gradient_shares(window_gradient(p)), " shares");
  }
  std::string const products = p.x_dtype == FALTUNG_F64 ? "fp64 sums; " : "fp32 sums of 32 products, then fp64; ";
  if (p.direction == Direction::forward) return products + text("y", forward_convolution(p));
  return products + text("dx", input_gradient_convolution(p)) + "; " + text("dk", filter_gradient_convolution(p));
}

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto convolution = forward_convolution(p);
  convolution.in = operand(a.x, p.x_dtype);
  convolution.filter = operand(a.k, p.k_dtype);
  convolution.shortcut = shortcut_operand(p, a.shortcut);
  convolution.out = a.y;
  auto* const run = in_windows(p) ? convolve_windows : convolve;
  run(convolution, compute_of(p), static_cast<cudaStream_t>(a.runtime.stream));
}

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  std::array<std::int64_t, 3> extents, filters;
  for (int i = 0; i < 3; ++i) extents[i] = p.axes[i].extent, filters[i] = p.axes[i].filter;
  if (a.dx.data) {
    auto convolution = input_gradient_convolution(p);
    convolution.in = operand(a.dy, p.x_dtype);
    convolution.filter = reversed(a.k, p.k_dtype, filters);
    convolution.shortcut = shortcut_operand(p, a.shortcut);
    convolution.out = a.dx;
    auto* const run = in_windows(p) ? convolve_windows : convolve;
    run(convolution, compute_of(p), stream);
  }
  if (a.dk.data && in_windows(p)) {
    auto gradient = window_gradient(p);
    gradient.x = operand(a.x, p.x_dtype);
    gradient.dy = operand(a.dy, p.x_dtype);
    gradient.out = a.dk;
    gradient.partial = static_cast<double*>(a.runtime.workspace);
    gradient_of_windows(gradient, compute_of(p), stream);
  } else if (a.dk.data) {
    auto convolution = filter_gradient_convolution(p);
    convolution.in = reversed(a.x, p.x_dtype, extents);
    convolution.filter = operand(a.dy, p.x_dtype);
    convolution.out = a.dk;
    convolve(convolution, compute_of(p), stream);
  }
  if (a.dshortcut.data) shortcut_gradient(p, a, stream);
}

}  // namespace faltung::long_conv::cuda::direct
