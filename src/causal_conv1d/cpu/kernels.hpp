// What the drivers (forward.cpp, backward.cpp, update.cpp) get from the sources that are compiled once per instruction
// set. All arithmetic is in whole registers of lanes: the drivers pad, so that no element ever takes another road than
// its neighbours. Real is double where x is float64, else float.
#pragma once
#include "causal_conv1d/problem.hpp"

namespace faltung::causal_conv1d::cpu {

// What a forward kernel reads tokens as: in the dtype of x where they lie, or widened to Real in a tile.
enum class Input { stored, widened };

// One channel, unit stride along time; count is a multiple of the lanes.
struct TimeForward {
  void const* x;         // [count + width - 1]: W-1 tokens of history first, not read where `history` holds them
  void const* history;   // Real [width - 1], what those first W-1 are; null: read them from x
  void const* weight;    // Real [width]
  void const* bias;      // Real [1]
  void const* residual;  // like y, or null
  void* y;               // [count], dtype of x
  std::int64_t count;
  int width;
};

// Whether the kernel for time takes a history apart from x.
constexpr bool takes_history(std::int64_t width, std::int64_t lanes) {
  return width >= 2 && width <= 4 && width - 1 <= lanes;
}

// A block of channels, unit stride along them; channels is a multiple of the lanes.
struct ChannelForward {
  void const* x;  // [tokens + width - 1, channels]
  std::int64_t x_stride;
  void const* weight;  // Real [width, channels]
  std::int64_t weight_stride;
  void const* bias;  // Real [channels]
  void const* residual;
  std::int64_t residual_stride;
  void* y;  // [tokens, channels]
  std::int64_t y_stride;
  std::int64_t tokens, channels;
  int width;
};

struct ForwardKernels {
  int vector_bytes;
  void (*(*time)(Dtype x, Input, int width, Activation))(TimeForward const&);
  void (*(*channel)(Dtype x, Input, int width, Activation))(ChannelForward const&);
};

// Elements of a storage type, `stride` apart, to Real without gaps and back; float where `real` is FALTUNG_F32, else
// double.
struct StagingKernels {
  void (*(*widen)(Dtype from, Dtype real))(void const* from, std::int64_t stride, void* to, std::int64_t count);
  void (*(*narrow)(Dtype to, Dtype real))(void const* from, void* to, std::int64_t stride, std::int64_t count);
};

// All of Real, in tiles with room for whole pairs of registers. What lies behind `count` is finite or unused.
struct TimeBackward {
  void const* xs;      // [count + width - 1]
  void const* weight;  // [width]
  void const* bias;    // [1]
  void* dz;            // silu: dy in, dz out, [count]; input: [count + width - 1]
  void* dx;            // [count]
  double* dweight;     // [width + 1], added to; the last is dbias
  std::int64_t count;
  int width;
};

// Every tensor has rows of `stride` channels, a multiple of the lanes.
struct ChannelBackward {
  void const* xs;      // [tokens + width - 1]
  void const* weight;  // [width]
  void const* bias;    // [1]
  void* dz;            // silu: [tokens]; input: [tokens + width - 1]
  void* dx;            // [tokens]
  double* dweight;     // [width + 1], added to
  std::int64_t stride, tokens;
  int width;
};

struct BackwardKernels {
  int vector_bytes;
  void (*silu_time)(TimeBackward const&);
  void (*input_time)(TimeBackward const&);
  void (*parameters_time)(TimeBackward const&);
  void (*silu_channel)(ChannelBackward const&);
  void (*input_channel)(ChannelBackward const&);
  void (*parameters_channel)(ChannelBackward const&);
};

ForwardKernels const& forward_kernels();
BackwardKernels const& backward_kernels(Dtype real);
StagingKernels const& staging_kernels();

}  // namespace faltung::causal_conv1d::cpu
