// What the kernels of cuda.line are launched with.
#pragma once
#include "long_conv/cuda/line/shape.hpp"
#include "long_conv/cuda/toeplitz/args.hpp"

namespace faltung::long_conv::cuda::line {

using toeplitz::Shortcut, toeplitz::Tensor;

// What is added to y before it is rounded: [batch, channel, extent]; null: nothing.
struct Sums {
  float const* data = nullptr;
  std::int64_t batch = 0, channel = 0;
};

// to = from * k + shortcut from + sums; of dx the shape is the transposed one.
template <typename Element, typename Tap>
struct ProductArgs {
  Shape shape;
  ProductLayout layout;
  Tensor<Element const*> from;
  Tensor<Tap const*> k;
  Shortcut shortcut;
  Sums sums;
  Tensor<Element*> to;
};

template <typename Element, typename Tap>
struct GradientArgs {
  Shape shape;
  GradientLayout layout;
  Tensor<Element const*> dy, x;
  Tensor<Tap*> dk;
  int ahead;  // channels that are at work at a time
};

}  // namespace faltung::long_conv::cuda::line
