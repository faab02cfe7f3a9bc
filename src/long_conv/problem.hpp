// What is asked of every long_conv implementation: validated, typed, the same for every device and layout.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "core/parallel.hpp"
#include "faltung/faltung.h"

namespace faltung::long_conv {

enum class Boundary { zero = FALTUNG_ZERO, circular = FALTUNG_CIRCULAR, causal = FALTUNG_CAUSAL };
enum class Direction { forward = FALTUNG_FORWARD, backward = FALTUNG_BACKWARD };
enum class FilterSharing { shared, per_sample };

// y[i] = sum over m of x[i + centre - m] k[m], m in [0, filter), i in [0, extent).
struct Axis {
  std::int64_t extent = 1;
  std::int64_t filter = 1;
  std::int64_t centre = 0;
  Boundary boundary = Boundary::zero;
  friend bool operator==(Axis const&, Axis const&) = default;
};

// Which axis of x has unit stride: a fact about speed only, never about the bits of a result.
enum class UnitStride { innermost, channel, none };

// Always three axes: 1D and 2D problems have leading axes of one point, one tap, centre 0, zero boundary.
struct Problem {
  Direction direction;
  int rank;  // spatial axes of the call, 1..3
  std::int64_t batch, channels;
  std::array<Axis, 3> axes;  // outermost first
  FilterSharing sharing;
  Dtype x_dtype;         // of x, y, dy, dx
  Dtype k_dtype;         // of k, dk
  Dtype shortcut_dtype;  // of shortcut, dshortcut; x_dtype where there is none
  faltung_device_type device;
  UnitStride unit_stride;
  friend bool operator==(Problem const&, Problem const&) = default;
};

FALTUNG_API std::string to_string(Problem const&);  // also for backends in other libraries

// Element strides. A stride of the batch axis is 0 for shared filters.
struct Strides {
  std::int64_t batch = 0, channel = 0;
  std::array<std::int64_t, 3> spatial = {};
};

struct ConstView {
  void const* data = nullptr;
  Strides strides;
};

struct View {
  void* data = nullptr;  // null: not asked for
  Strides strides;
  operator ConstView() const { return {data, strides}; }
};

struct ConstVector {
  void const* data = nullptr;  // [channels]; null: none
  std::int64_t stride = 0;
};

struct Vector {
  void* data = nullptr;
  std::int64_t stride = 0;
};

struct Runtime {
  Parallel parallel;
  void* stream = nullptr;
  int device_index = 0;
  void* workspace = nullptr;
};

struct ForwardArgs {
  ConstView x;           // [batch, channels, S0, S1, S2]
  ConstView k;           // [batch or 1, channels, K0, K1, K2]
  ConstVector shortcut;  // [channels]
  View y;                // like x
  Runtime runtime;
};

// Outputs whose data is null are not asked for. dx needs dy and k (and shortcut); dk and dshortcut need dy and x.
struct BackwardArgs {
  ConstView dy, x, k;
  ConstVector shortcut;
  View dx, dk;
  Vector dshortcut;
  Runtime runtime;
};

}  // namespace faltung::long_conv
