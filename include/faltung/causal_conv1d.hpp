// Short causal depthwise convolution with carried state: a veneer over faltung_causal_conv1d_* of faltung.h, where
// shapes, states and bits are told. Failures throw faltung::Error.
//
//   namespace conv = faltung::causal_conv1d;
//   conv::forward(x, weight, y, final_state, {.bias = bias, .activation = conv::Activation::silu});
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "faltung/error.hpp"
#include "faltung/tensor.hpp"

namespace faltung::causal_conv1d {

enum class Activation { none = FALTUNG_ACTIVATION_NONE, silu = FALTUNG_ACTIVATION_SILU };
enum class Direction { forward = FALTUNG_FORWARD, backward = FALTUNG_BACKWARD };
enum class Layout { channels_first = FALTUNG_CHANNELS_FIRST, channels_last = FALTUNG_CHANNELS_LAST };
enum class Window { trailing = FALTUNG_TRAILING, leading = FALTUNG_LEADING, ring = FALTUNG_RING };

// Whether the library reads index tensors before it works, and fails where their content is out of order.
enum class Content { trusted, checked };

struct Options {
  std::optional<Tensor> bias = {};  // [channels]
  Activation activation = Activation::none;
  std::optional<Tensor> residual = {};       // like x; forward only
  std::optional<Tensor> initial_state = {};  // [sequences, channels, width - 1 or width]
  std::optional<Tensor> cu_seqlens = {};     // [sequences + 1]; at most one of the three
  std::optional<Tensor> seq_idx = {};        // [batch, time]
  std::optional<Tensor> lengths = {};        // [batch]
  Layout layout = Layout::channels_first;
  Content content = Content::trusted;
  void* stream = nullptr;                       // cudaStream_t; ignored on the CPU
  std::span<std::byte> workspace = {};          // workspace() bytes on x's device, 256-byte aligned
  faltung_parallel_for parallel_for = nullptr;  // empty: the library's own threads
  void* parallel_context = nullptr;
  char const* implementation = nullptr;  // tests only
};

struct UpdateOptions {
  std::optional<Tensor> bias = {};
  Activation activation = Activation::none;
  Window window = Window::trailing;
  std::optional<Tensor> state_indices = {};         // [rows], all of int32
  std::optional<Tensor> output_state_indices = {};  // [rows]
  std::optional<Tensor> cache_seqlens = {};         // [rows]
  std::optional<Tensor> num_accepted = {};          // [rows]
  std::optional<Tensor> query_start_loc = {};       // [rows + 1]
  Layout layout = Layout::channels_first;
  Content content = Content::trusted;
  void* stream = nullptr;
  faltung_parallel_for parallel_for = nullptr;
  void* parallel_context = nullptr;
  char const* implementation = nullptr;
};

// Outputs of the backward; empty: not asked for.
struct Gradients {
  std::optional<Tensor> dx = {};
  std::optional<Tensor> dweight = {};
  std::optional<Tensor> dbias = {};
  std::optional<Tensor> dinitial_state = {};
  std::optional<Tensor> dresidual = {};
};

inline Tensor const* pointer(std::optional<Tensor> const& tensor) { return tensor ? &*tensor : nullptr; }
inline Tensor* pointer(std::optional<Tensor>& tensor) { return tensor ? &*tensor : nullptr; }

// Points into `options`.
inline faltung_causal_conv1d_options to_c(Options const& options) {
  faltung_causal_conv1d_options c;
  faltung_causal_conv1d_options_default(&c);
  c.layout = faltung_layout(int(options.layout));
  c.activation = faltung_activation(int(options.activation));
  c.bias = pointer(options.bias);
  c.residual = pointer(options.residual);
  c.initial_state = pointer(options.initial_state);
  c.cu_seqlens = pointer(options.cu_seqlens);
  c.seq_idx = pointer(options.seq_idx);
  c.lengths = pointer(options.lengths);
  c.check = options.content == Content::checked;
  c.stream = options.stream;
  c.workspace = options.workspace.data();
  c.workspace_size = options.workspace.size();
  c.parallel_for = options.parallel_for;
  c.parallel_context = options.parallel_context;
  c.implementation = options.implementation;
  return c;
}

// Points into `options`.
inline faltung_causal_conv1d_update_options to_c(UpdateOptions const& options) {
  faltung_causal_conv1d_update_options c;
  faltung_causal_conv1d_update_options_default(&c);
  c.layout = faltung_layout(int(options.layout));
  c.activation = faltung_activation(int(options.activation));
  c.window = faltung_window(int(options.window));
  c.bias = pointer(options.bias);
  c.state_indices = pointer(options.state_indices);
  c.output_state_indices = pointer(options.output_state_indices);
  c.cache_seqlens = pointer(options.cache_seqlens);
  c.num_accepted = pointer(options.num_accepted);
  c.query_start_loc = pointer(options.query_start_loc);
  c.check = options.content == Content::checked;
  c.stream = options.stream;
  c.parallel_for = options.parallel_for;
  c.parallel_context = options.parallel_context;
  c.implementation = options.implementation;
  return c;
}

inline void forward(Tensor const& x, Tensor const& weight, Tensor y, std::optional<Tensor> final_state = {},
                    Options const& options = {}) {
  auto const c = to_c(options);
  check(faltung_causal_conv1d_forward(&x, &weight, &y, pointer(final_state), &c));
}

inline void backward(Tensor const& dy, Tensor const& x, Tensor const& weight, std::optional<Tensor> const& dfinal_state,
                     Gradients gradients, Options const& options = {}) {
  auto const c = to_c(options);
  check(faltung_causal_conv1d_backward(&dy, &x, &weight, pointer(dfinal_state), pointer(gradients.dx),
                                       pointer(gradients.dweight), pointer(gradients.dbias),
                                       pointer(gradients.dinitial_state), pointer(gradients.dresidual), &c));
}

// One or more tokens per row; `state` [slots, channels, at least width - 1] advances in place.
inline void update(Tensor const& x, Tensor state, Tensor const& weight, Tensor y, UpdateOptions const& options = {}) {
  auto const c = to_c(options);
  check(faltung_causal_conv1d_update(&x, &state, &weight, &y, &c));
}

// Bytes of Options::workspace.
inline std::size_t workspace(Direction direction, Tensor const& x, Tensor const& weight, Options const& options = {}) {
  auto const c = to_c(options);
  std::size_t bytes = 0;
  check(faltung_causal_conv1d_workspace(faltung_direction(int(direction)), &x, &weight, &c, &bytes));
  return bytes;
}

// The implementations, each with `accepts` and its policy or the reason why it declines, then the choice.
inline std::string explain(Direction direction, Tensor const& x, Tensor const& weight, Options const& options = {}) {
  auto const c = to_c(options);
  return text_of([&](char* text, std::int64_t capacity, std::int64_t* needed) {
    return faltung_causal_conv1d_explain(faltung_direction(int(direction)), &x, &weight, &c, text, capacity, needed);
  });
}

// A forward validated and dispatched once; what may differ between prepare and launch is told at
// faltung_causal_conv1d_prepared.
class Prepared {
 public:
  Prepared(Tensor const& x, Tensor const& weight, Tensor const& y, std::optional<Tensor> const& final_state = {},
           Options const& options = {}) {
    auto const c = to_c(options);
    faltung_causal_conv1d_prepared* prepared = nullptr;
    check(faltung_causal_conv1d_prepare(&x, &weight, &y, pointer(final_state), &c, &prepared));
    prepared_.reset(prepared);
  }

  void launch(Tensor const& x, Tensor const& weight, Tensor y, std::optional<Tensor> final_state = {},
              Options const& options = {}) const {
    auto const c = to_c(options);
    check(faltung_causal_conv1d_launch(prepared_.get(), &x, &weight, &y, pointer(final_state), &c));
  }

 private:
  struct Destroy {
    void operator()(faltung_causal_conv1d_prepared* prepared) const { faltung_causal_conv1d_destroy(prepared); }
  };
  std::unique_ptr<faltung_causal_conv1d_prepared, Destroy> prepared_;
};

}  // namespace faltung::causal_conv1d
