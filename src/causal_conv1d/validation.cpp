#include "causal_conv1d/validation.hpp"

#include <algorithm>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace faltung::causal_conv1d {
namespace {

constexpr std::int64_t max_width = 256;

}  // namespace

void check_layout(faltung_layout layout, faltung_activation activation) {
  require(layout == FALTUNG_CHANNELS_FIRST || layout == FALTUNG_CHANNELS_LAST,
          "layout: expected a value of faltung_layout, got ", int(layout));
  require(activation == FALTUNG_ACTIVATION_NONE || activation == FALTUNG_ACTIVATION_SILU,
          "activation: expected a value of faltung_activation, got ", int(activation));
}

void check_floating(Tensor const& t, char const* name, Data data) {
  check_tensor(t, name, data == Data::read);
  require_type(is_floating(t.dtype), name, ": expected a floating dtype, got ", name_of(t.dtype));
}

void check_shape(Tensor const& t, char const* name, std::initializer_list<std::int64_t> expected, char const* words) {
  require(t.rank == int(expected.size()) && std::equal(expected.begin(), expected.end(), t.shape), name, ": expected ",
          words, " = ", shape_text(expected), ", got ", shape_text(t));
}

void check_weight(Tensor const& weight, Tensor const& x, std::int64_t channels, char const* name, Data data) {
  check_floating(weight, name, data);
  check_same_device(weight, name, x, "x");
  require(weight.rank == 2, name, ": expected shape [channels, width], got ", shape_text(weight));
  require(weight.shape[0] == channels, name, " has ", weight.shape[0], " channels, x has ", channels);
  require(weight.shape[1] >= 1 && weight.shape[1] <= max_width, name, ": expected a width from 1 to ", max_width,
          ", got ", weight.shape[1]);
}

void check_vector(Tensor const& t, char const* name, Tensor const& x, std::int64_t channels, Data data) {
  check_floating(t, name, data);
  check_same_device(t, name, x, "x");
  require(t.rank == 1, name, ": expected shape [channels], got ", shape_text(t));
  require(t.shape[0] == channels, name, " has ", t.shape[0], " channels, x has ", channels);
}

void check_like(Tensor const& t, char const* name, Tensor const& like, char const* like_name, Data data) {
  check_tensor(t, name, data == Data::read);
  require_type(t.dtype == like.dtype, name, " is ", name_of(t.dtype), ", ", like_name, " is ", name_of(like.dtype));
  check_same_device(t, name, like, like_name);
  require(t.rank == like.rank && std::equal(t.shape, t.shape + t.rank, like.shape), name, " must have the shape of ",
          like_name, ", ", shape_text(like), ", got ", shape_text(t));
}

void check_index(Tensor const& t, char const* name, IndexTypes types, Tensor const& x, Data data) {
  check_tensor(t, name, data == Data::read);
  if (types == IndexTypes::int32)
    require_type(t.dtype == FALTUNG_I32, name, ": expected int32, got ", name_of(t.dtype));
  else
    require_type(t.dtype == FALTUNG_I32 || t.dtype == FALTUNG_I64, name, ": expected int32 or int64, got ",
                 name_of(t.dtype));
  check_same_device(t, name, x, "x");
}

UnitStride unit_stride(std::int64_t time, std::int64_t channel_stride, std::int64_t time_stride) {
  if (time == 1 && channel_stride == 1) return UnitStride::channel;
  return time_stride == 1 ? UnitStride::time : channel_stride == 1 ? UnitStride::channel : UnitStride::none;
}

void check_state(Tensor const& t, char const* name, Problem const& p, Tensor const& x, Data data) {
  check_floating(t, name, data);
  check_same_device(t, name, x, "x");
  bool const fits = t.rank == 3 && t.shape[0] == p.sequences && t.shape[1] == p.channels &&
                    (t.shape[2] == p.width - 1 || t.shape[2] == p.width);
  require(fits, name, ": expected [sequences, channels, width - 1 or width] = [", p.sequences, ", ", p.channels, ", ",
          p.width - 1, " or ", p.width, "], got ", shape_text(t));
}

Problem validate(Direction direction, Tensor const& x, Tensor const& weight, Options const& options, Data x_data,
                 Data weight_data, Data cut_data) {
  require(options.size >= sizeof(Options), "options.size: expected ", sizeof(Options),
          " (use faltung_causal_conv1d_options_default), got ", options.size);
  check_layout(options.layout, options.activation);
  check_floating(x, "x", x_data);
  Axes const axes{options.layout == FALTUNG_CHANNELS_LAST};
  require(x.rank == 3, "x must be ", axes.last ? "[batch, time, channels]" : "[batch, channels, time]", ", got shape ",
          shape_text(x));
  auto const channels = x.shape[axes.channel()];
  check_weight(weight, x, channels, "weight", weight_data);
  // Optional inputs are read by whatever reads x or the weight.
  Data const data = x_data == Data::read || weight_data == Data::read ? Data::read : Data::unread;
  if (options.bias) check_vector(*options.bias, "bias", x, channels, data);
  if (options.residual) check_like(*options.residual, "residual", x, "x", data);
  int const cuts = !!options.cu_seqlens + !!options.seq_idx + !!options.lengths;
  require(cuts <= 1, "cu_seqlens, seq_idx, lengths: expected at most one of them, got ", cuts);
  Problem p{.direction = direction,
            .batch = x.shape[0],
            .channels = channels,
            .time = x.shape[axes.time()],
            .sequences = x.shape[0],
            .width = int(weight.shape[1]),
            .activation = Activation(int(options.activation)),
            .cut = Sequences::whole,
            .window = Window::trailing,
            .x_dtype = x.dtype,
            .weight_dtype = weight.dtype,
            .bias_dtype = options.bias ? options.bias->dtype : x.dtype,
            .state_dtype = x.dtype,
            .final_state_dtype = x.dtype,
            .index_dtype = FALTUNG_I32,
            .device = x.device,
            .unit_stride = unit_stride(x.shape[axes.time()], x.strides[axes.channel()], x.strides[axes.time()])};
  if (auto const cu_seqlens = options.cu_seqlens) {
    check_index(*cu_seqlens, "cu_seqlens", IndexTypes::int32_or_int64, x, cut_data);
    require(cu_seqlens->rank == 1 && cu_seqlens->shape[0] >= 1, "cu_seqlens: expected shape [sequences + 1], got ",
            shape_text(*cu_seqlens));
    require(p.batch == 1, "cu_seqlens: packed sequences need a batch of 1, got x with a batch of ", p.batch);
    p.cut = Sequences::packed;
    p.sequences = cu_seqlens->shape[0] - 1;
    p.index_dtype = cu_seqlens->dtype;
  } else if (options.seq_idx) {
    check_index(*options.seq_idx, "seq_idx", IndexTypes::int32, x, cut_data);
    check_shape(*options.seq_idx, "seq_idx", {p.batch, p.time}, "[batch, time]");
    p.cut = Sequences::labelled;
  } else if (options.lengths) {
    check_index(*options.lengths, "lengths", IndexTypes::int32_or_int64, x, cut_data);
    check_shape(*options.lengths, "lengths", {p.batch}, "[batch]");
    p.cut = Sequences::padded;
    p.index_dtype = options.lengths->dtype;
  }
  if (options.initial_state) {
    check_state(*options.initial_state, "initial_state", p, x, data);
    p.state_dtype = p.final_state_dtype = options.initial_state->dtype;
  }
  return p;
}

Strides strides_of(Tensor const& t, Axes axes) {
  return {t.strides[0], t.strides[axes.channel()], t.strides[axes.time()]};
}

ConstState state_of(Tensor const* t) {
  return t ? ConstState{t->data, t->strides[0], t->strides[1], t->strides[2], t->shape[2]} : ConstState{};
}

State state_of(Tensor* t) {
  return t ? State{t->data, t->strides[0], t->strides[1], t->strides[2], t->shape[2]} : State{};
}

ConstBias vector_of(Tensor const* t) { return t ? ConstBias{t->data, t->strides[0]} : ConstBias{}; }

ConstWeight weight_of(Tensor const& t) { return {t.data, t.strides[0], t.strides[1]}; }

Index index_of(Tensor const* t) {
  if (!t) return {};
  return {t->data, t->strides[t->rank - 1], t->rank == 2 ? t->strides[0] : 0};
}

Index cut_of(Options const& options) {
  return index_of(options.cu_seqlens ? options.cu_seqlens : options.seq_idx ? options.seq_idx : options.lengths);
}

}  // namespace faltung::causal_conv1d
