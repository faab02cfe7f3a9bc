// Checks of the tensors of a call, each saying expected and got, and their translation into the views of problem.hpp.
#pragma once
#include "causal_conv1d/api.hpp"
#include "core/tensor.hpp"

namespace faltung::causal_conv1d {

using Tensor = faltung_tensor;

enum class Data { read, unread };  // unread: only shape, dtype and device are looked at

// Where channels and time lie in a tensor [B, D, T] or [B, T, D].
struct Axes {
  bool last;
  int channel() const { return last ? 2 : 1; }
  int time() const { return last ? 1 : 2; }
};

void check_layout(faltung_layout, faltung_activation);
void check_floating(Tensor const&, char const* name, Data);
// weight [D, W] and bias [D] beside an x with `channels`.
void check_weight(Tensor const& weight, Tensor const& x, std::int64_t channels, char const* name, Data);
void check_vector(Tensor const&, char const* name, Tensor const& x, std::int64_t channels, Data);
// `t` must have the shape, dtype and device of `like`.
void check_like(Tensor const& t, char const* name, Tensor const& like, char const* like_name, Data);
void check_shape(Tensor const&, char const* name, std::initializer_list<std::int64_t> expected, char const* words);
enum class IndexTypes { int32, int32_or_int64 };
void check_index(Tensor const&, char const* name, IndexTypes, Tensor const& x, Data);

UnitStride unit_stride(std::int64_t time, std::int64_t channel_stride, std::int64_t time_stride);

// The problem of a forward or a backward, with its options' tensors checked.
Problem validate(Direction, Tensor const& x, Tensor const& weight, Options const&, Data x_data, Data weight_data,
                 Data cut_data);
// A state [N, D, W-1] or [N, D, W].
void check_state(Tensor const&, char const* name, Problem const&, Tensor const& x, Data);

Strides strides_of(Tensor const&, Axes);
ConstState state_of(Tensor const*);
State state_of(Tensor*);
ConstBias vector_of(Tensor const*);
ConstWeight weight_of(Tensor const&);
Index index_of(Tensor const*);
Index cut_of(Options const&);

}  // namespace faltung::causal_conv1d
