// What the kernels of cuda.spectral_passes are launched with.
#pragma once
#include "long_conv/cuda/spectral/plan.hpp"
#include "long_conv/cuda/spectral_passes/plan.hpp"

namespace faltung::long_conv::cuda::spectral_passes {

using spectral::planes;
using toeplitz::LagAxis, toeplitz::Shape, toeplitz::Shortcut, toeplitz::Tensor;
static_assert(low_slots == spectral::low_slots);

inline constexpr int least_shared_memory = 99 * 1024;  // that a block may have, of the devices from sm_80 on
inline constexpr int warps = 8, threads = 32 * warps;  // of kernels whose blocks share constants

template <typename Element>
struct ImageSpectraArgs {
  Shape shape;
  Chunk chunk;
  Tensor<Element const*> x;
  Spectra to;
};

template <typename Element>
struct FilterSpectraArgs {
  Shape shape;
  Chunk chunk;
  Tensor<Element const*> k;
  Spectra to;
};

// Slots of a launch. In fp16 the first slots, whose operands have two halves, have a launch of their own.
struct SlotRange {
  int first, count;
};

struct ProductArgs {
  Chunk chunk;
  SlotRange slots;
  Spectra images, filters;  // the products take the places of the images
};

template <typename Element>
struct ImageGridArgs {
  Shape shape;
  Chunk chunk;
  Spectra spectra;
  int const* filter_exponents;
  Tensor<Element const*> x;
  Shortcut shortcut;
  Tensor<Element*> y;
};

struct SumsArgs {
  Chunk chunk;
  SlotRange slots;  // with their mirror images
  Spectra dy, x;
  Sums sums;
  bool first;  // chunk of images
  int parity;
};

template <typename Element>
struct FilterTapsArgs {
  Shape shape;
  Chunk chunk;
  Sums sums;
  int parity;
  int group_headroom;  // bits that the sums of all groups need beside those of one
  Tensor<Element*> dk;
};

}  // namespace faltung::long_conv::cuda::spectral_passes
