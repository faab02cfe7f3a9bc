// Depthwise convolution with filters as large as the grid, or larger: a veneer over faltung_long_conv_* of faltung.h,
// where shapes, boundaries and accuracy are told. Failures throw faltung::Error.
//
//   faltung::long_conv::forward(x, k, y, {.boundary = faltung::long_conv::Boundary::causal});
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "faltung/error.hpp"
#include "faltung/tensor.hpp"

namespace faltung::long_conv {

enum class Boundary { zero = FALTUNG_ZERO, circular = FALTUNG_CIRCULAR, causal = FALTUNG_CAUSAL };
enum class Direction { forward = FALTUNG_FORWARD, backward = FALTUNG_BACKWARD };
enum class Layout { channels_first = FALTUNG_CHANNELS_FIRST, channels_last = FALTUNG_CHANNELS_LAST };

// One boundary for all axes, or one each, in the order of the shape.
struct Boundaries {
  std::array<Boundary, FALTUNG_MAX_SPATIAL_RANK> axes;
  Boundaries(Boundary all = Boundary::zero) : axes{all, all, all} {}
  Boundaries(Boundary first, Boundary second, Boundary third = Boundary::zero) : axes{first, second, third} {}
};

struct Options {
  std::optional<Tensor> shortcut = {};  // [channels]: y += shortcut[c] x
  Boundaries boundary = {};
  std::array<std::optional<std::int64_t>, FALTUNG_MAX_SPATIAL_RANK> centre = {};  // empty: the boundary's rule
  Layout layout = Layout::channels_first;
  void* stream = nullptr;                       // cudaStream_t; ignored on the CPU
  std::span<std::byte> workspace = {};          // workspace() bytes on x's device, 256-byte aligned
  faltung_parallel_for parallel_for = nullptr;  // empty: the library's own threads
  void* parallel_context = nullptr;
  char const* implementation = nullptr;  // tests only
};

// Outputs of the backward; empty: not asked for.
struct Gradients {
  std::optional<Tensor> dx = {};
  std::optional<Tensor> dk = {};
  std::optional<Tensor> dshortcut = {};
};

inline Tensor const* pointer(std::optional<Tensor> const& tensor) { return tensor ? &*tensor : nullptr; }
inline Tensor* pointer(std::optional<Tensor>& tensor) { return tensor ? &*tensor : nullptr; }

inline faltung_long_conv_options to_c(Options const& options) {
  faltung_long_conv_options c;
  faltung_long_conv_options_default(&c);
  c.layout = faltung_layout(int(options.layout));
  for (std::size_t axis = 0; axis < options.centre.size(); ++axis) {
    c.boundary[axis] = faltung_boundary(int(options.boundary.axes[axis]));
    c.centre[axis] = options.centre[axis].value_or(FALTUNG_DEFAULT_CENTRE);
  }
  c.stream = options.stream;
  c.workspace = options.workspace.data();
  c.workspace_size = options.workspace.size();
  c.parallel_for = options.parallel_for;
  c.parallel_context = options.parallel_context;
  c.implementation = options.implementation;
  return c;
}

inline void forward(Tensor const& x, Tensor const& k, Tensor y, Options const& options = {}) {
  auto const c = to_c(options);
  check(faltung_long_conv_forward(&x, &k, pointer(options.shortcut), &y, &c));
}

inline void backward(Tensor const& dy, Tensor const& x, Tensor const& k, Gradients gradients,
                     Options const& options = {}) {
  auto const c = to_c(options);
  check(faltung_long_conv_backward(&dy, &x, &k, pointer(options.shortcut), pointer(gradients.dx), pointer(gradients.dk),
                                   pointer(gradients.dshortcut), &c));
}

// Bytes of Options::workspace; for the backward x stands for dy and dx, k for dk.
inline std::size_t workspace(Direction direction, Tensor const& x, Tensor const& k, Options const& options = {}) {
  auto const c = to_c(options);
  std::size_t bytes = 0;
  check(faltung_long_conv_workspace(faltung_direction(int(direction)), &x, &k, pointer(options.shortcut), &c, &bytes));
  return bytes;
}

// The implementations, each with `accepts` and its policy or the reason why it declines, then the choice.
inline std::string explain(Direction direction, Tensor const& x, Tensor const& k, Options const& options = {}) {
  auto const c = to_c(options);
  return text_of([&](char* text, std::int64_t capacity, std::int64_t* needed) {
    return faltung_long_conv_explain(faltung_direction(int(direction)), &x, &k, pointer(options.shortcut), &c, text,
                                     capacity, needed);
  });
}

}  // namespace faltung::long_conv
