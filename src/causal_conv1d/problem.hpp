// What is asked of every causal_conv1d implementation: validated, typed, the same for every device and layout.
#pragma once
#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "core/parallel.hpp"
#include "faltung/faltung.h"

namespace faltung::causal_conv1d {

enum class Direction { forward, backward, update };
enum class Activation { none = FALTUNG_ACTIVATION_NONE, silu = FALTUNG_ACTIVATION_SILU };
enum class Window { trailing = FALTUNG_TRAILING, leading = FALTUNG_LEADING, ring = FALTUNG_RING };

// How the tokens of x fall into sequences. `whole`: a row of the batch is one. `packed`: the only row holds all, cut at
// cu_seqlens (query_start_loc in the update). `labelled`: a run of equal labels is one. `padded`: the first lengths[b]
// tokens of row b.
enum class Sequences { whole, packed, labelled, padded };

// Which axis of x has unit stride: a fact about speed only, never about the bits of a result.
enum class UnitStride { time, channel, none };

struct Problem {
  Direction direction;
  std::int64_t batch, channels, time;  // of x
  std::int64_t sequences;              // N: states, or rows of an update
  int width;                           // W
  Activation activation;
  Sequences cut;
  Window window;  // update only
  Dtype x_dtype;  // of x, y, residual and their gradients
  Dtype weight_dtype, bias_dtype;
  Dtype state_dtype;        // of initial_state and its gradient, or of the update's state
  Dtype final_state_dtype;  // of final_state and its gradient
  Dtype index_dtype;        // of cu_seqlens, lengths, query_start_loc
  faltung_device_type device;
  UnitStride unit_stride;
};

std::string to_string(Problem const&);

// Element strides of [batch, channels, time], in whatever order the caller's axes are.
struct Strides {
  std::int64_t batch = 0, channel = 0, time = 0;
};

struct ConstView {
  void const* data = nullptr;  // null: none
  Strides strides;
};

struct View {
  void* data = nullptr;  // null: not asked for
  Strides strides;
  operator ConstView() const { return {data, strides}; }
};

struct ConstWeight {
  void const* data = nullptr;  // [channels, width]
  std::int64_t channel = 0, tap = 0;
};

struct Weight {
  void* data = nullptr;
  std::int64_t channel = 0, tap = 0;
};

struct ConstBias {
  void const* data = nullptr;  // [channels]
  std::int64_t stride = 0;
};

struct Bias {
  void* data = nullptr;
  std::int64_t stride = 0;
};

// [sequences or slots, channels, columns]; columns are W-1 or W (the oldest unused) but for the update, where they are
// S.
struct ConstState {
  void const* data = nullptr;
  std::int64_t sequence = 0, channel = 0, column = 0;  // strides
  std::int64_t columns = 0;
};

struct State {
  void* data = nullptr;
  std::int64_t sequence = 0, channel = 0, column = 0;
  std::int64_t columns = 0;
  operator ConstState() const { return {data, sequence, channel, column, columns}; }
};

// An index tensor on the device of x. Its content is never trusted: whatever it holds, nothing outside the tensors is
// touched.
struct Index {
  void const* data = nullptr;  // null: none
  std::int64_t stride = 0;     // of the last axis
  std::int64_t batch = 0;      // seq_idx: stride of the batch axis
};

struct Runtime {
  Parallel parallel;
  void* stream = nullptr;
  int device_index = 0;
  void* workspace = nullptr;
  bool check = false;  // read the index tensors first and fail where their content is out of order
};

struct ForwardArgs {
  ConstView x;
  ConstWeight weight;
  ConstBias bias;
  ConstView residual;
  ConstState initial_state;
  Index cut;  // cu_seqlens [N+1], seq_idx [B, T] or lengths [B], by Problem::cut
  View y;
  State final_state;
  Runtime runtime;
};

// Outputs whose data is null are not asked for.
struct BackwardArgs {
  ConstView dy, x;
  ConstWeight weight;
  ConstBias bias;
  ConstState initial_state;
  ConstState dfinal_state;
  Index cut;
  View dx, dresidual;
  Weight dweight;
  Bias dbias;
  State dinitial_state;
  Runtime runtime;
};

struct UpdateArgs {
  ConstView x;  // packed: one row of all tokens
  ConstWeight weight;
  ConstBias bias;
  State state;                // [slots, channels, columns]
  std::int64_t slots;         // of the state
  Index source, destination;  // [N]: slot of each row; null: the row's own number, the source's slot
  Index position;             // cache_seqlens [N], ring only
  Index accepted;             // num_accepted [N]
  Index cut;                  // query_start_loc [N+1], packed only
  View y;
  Runtime runtime;
};

}  // namespace faltung::causal_conv1d
