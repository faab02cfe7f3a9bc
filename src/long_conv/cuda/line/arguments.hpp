// Problem and views -> what the kernels of cuda.line are launched with.
#pragma once
#include "cuda/device.hpp"
#include "long_conv/cuda/line/args.hpp"
#include "long_conv/cuda/line/choice.hpp"
#include "long_conv/cuda/line/launch.hpp"
#include "long_conv/cuda/toeplitz/tensor.hpp"

namespace faltung::long_conv::cuda::line {

template <typename Element, typename Tap>
ProductArgs<Element, Tap> product_args(Problem const& p, Turn turn, ConstView const& from, ConstView const& k,
                                       ConstVector const& shortcut, Sums const& sums, View const& to) {
  auto const fitted = *product_shape(p), shape = turn == Turn::forward ? fitted : fitted.transposed();
  return {.shape = shape,
          .layout = ProductLayout(shape),
          .from = toeplitz::make_tensor<Element const*>(from, p.axes[2].extent, 8),
          .k = toeplitz::make_tensor<Tap const*>(k, p.axes[2].filter, 1),
          .shortcut = {shortcut.data, shortcut.stride, p.shortcut_dtype},
          .sums = sums,
          .to = toeplitz::make_tensor<Element*>(to, p.axes[2].extent, 4)};
}

// `ahead`: channels that are at work at a time.
template <typename Element, typename Tap>
GradientArgs<Element, Tap> gradient_args(Problem const& p, ConstView const& dy, ConstView const& x, View const& dk,
                                         int ahead) {
  auto const shape = *gradient_shape(p);
  GradientArgs<Element, Tap> args{.shape = shape,
                                  .layout = GradientLayout(shape),
                                  .dy = toeplitz::make_tensor<Element const*>(dy, p.axes[2].extent, 8),
                                  .x = toeplitz::make_tensor<Element const*>(x, p.axes[2].extent, 8),
                                  .dk = toeplitz::make_tensor<Tap*>(dk, p.axes[2].filter, 1),
                                  .ahead = ahead};
  args.dk.row = p.axes[2].filter;  // there is one row
  return args;
}

}  // namespace faltung::long_conv::cuda::line
