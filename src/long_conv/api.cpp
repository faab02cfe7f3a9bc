// Validates a call once, turns its tensors into a Problem and views, and hands them to the first implementation that
// accepts.
#include "long_conv/api.hpp"

#include <cstring>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "long_conv/implementation.hpp"

namespace faltung::long_conv {
namespace {

using Options = faltung_long_conv_options;
using Tensor = faltung_tensor;

// Where the axes of a tensor of this layout lie.
struct Layout {
  int spatial_rank;
  bool last;
  int channel_axis(int leading) const { return last ? leading + spatial_rank : leading; }
  int spatial_axis(int leading, int i) const { return (last ? leading : leading + 1) + i; }
};

char const* layout_text(bool last) {
  return last ? "[batch, 1 to 3 spatial axes, channels]" : "[batch, channels, 1 to 3 spatial axes]";
}

Axis make_axis(Options const& options, int i, std::int64_t extent, std::int64_t filter) {
  auto const boundary = options.boundary[i];
  require(boundary == FALTUNG_ZERO || boundary == FALTUNG_CIRCULAR || boundary == FALTUNG_CAUSAL, "boundary[", i,
          "]: expected a value of faltung_boundary, got ", int(boundary));
  auto centre = options.centre[i];
  if (centre == FALTUNG_DEFAULT_CENTRE)
    centre = boundary == FALTUNG_ZERO ? filter / 2 : boundary == FALTUNG_CIRCULAR ? (filter - 1) / 2 : 0;
  require(boundary != FALTUNG_CAUSAL || centre == 0, "centre[", i, "]: a causal axis has centre 0, got ", centre);
  // Expanded axes make any extent legal: sums of an extent, a filter and a centre must fit 64 bits.
  constexpr std::int64_t largest = std::int64_t(1) << 60;
  require(extent < largest && filter < largest, "axis ", i, ": expected extents below 2^60, got ", extent,
          " points and ", filter, " taps");
  constexpr std::int64_t limit = std::int64_t(1) << 62;
  require(centre > -limit && centre < limit, "centre[", i, "]: expected a magnitude below 2^62, got ", centre);
  return {extent, filter, centre, Boundary(int(boundary))};
}

// The fields of a tensor [leading axes, channels, *spatial] in the layout, as strides of three spatial axes.
Strides strides_of(Tensor const& t, Layout layout, int leading) {
  Strides s;
  s.batch = leading && t.shape[0] != 1 ? t.strides[0] : 0;
  s.channel = t.strides[layout.channel_axis(leading)];
  for (int i = 0; i < layout.spatial_rank; ++i)
    s.spatial[3 - layout.spatial_rank + i] = t.strides[layout.spatial_axis(leading, i)];
  return s;
}

ConstVector const_vector(Tensor const* t) { return t ? ConstVector{t->data, t->strides[0]} : ConstVector{}; }

// What a call's tensors come to.
struct Call {
  Problem problem;
  Layout layout;
  int k_leading;  // 1 where k has a batch axis (of 1 or of B)
};

void check_vector(Tensor const& t, char const* name, Problem const& p, Tensor const& x, bool read) {
  check_tensor(t, name, read);
  require_type(is_floating(t.dtype), name, ": expected a floating dtype, got ", name_of(t.dtype));
  check_same_device(t, name, x, "x");
  require(t.rank == 1, name, ": expected shape [channels], got ", shape_text(t));
  require(t.shape[0] == p.channels, name, " has ", t.shape[0], " channels, x has ", p.channels);
}

Call make_call(Direction direction, Tensor const& x, Tensor const& k, Tensor const* shortcut, Options const& options,
               bool x_is_read, bool k_is_read) {
  require(options.size >= sizeof(Options), "options.size: expected ", sizeof(Options),
          " (use faltung_long_conv_options_default), got ", options.size);
  require(options.layout == FALTUNG_CHANNELS_FIRST || options.layout == FALTUNG_CHANNELS_LAST,
          "layout: expected a value of faltung_layout, got ", int(options.layout));
  check_tensor(x, "x", x_is_read);
  check_tensor(k, "k", k_is_read);
  require_type(is_floating(x.dtype), "x: expected a floating dtype, got ", name_of(x.dtype));
  require_type(is_floating(k.dtype), "k: expected a floating dtype, got ", name_of(k.dtype));
  check_same_device(k, "k", x, "x");
  bool const last = options.layout == FALTUNG_CHANNELS_LAST;
  require(x.rank >= 3 && x.rank <= 5, "x must be ", layout_text(last), ", got shape ", shape_text(x));
  Layout const layout{x.rank - 2, last};
  int const k_leading = k.rank - (layout.spatial_rank + 1);
  require(k_leading == 0 || k_leading == 1, "k must have ", layout.spatial_rank + 1, " axes (channels and ",
          layout.spatial_rank, " spatial) or one more for the batch, since x has shape ", shape_text(x), "; got shape ",
          shape_text(k));
  Problem p{.direction = direction,
            .rank = layout.spatial_rank,
            .batch = x.shape[0],
            .channels = x.shape[layout.channel_axis(1)],
            .axes = {},
            .sharing = FilterSharing::shared,
            .x_dtype = x.dtype,
            .k_dtype = k.dtype,
            .shortcut_dtype = shortcut ? shortcut->dtype : x.dtype,
            .device = x.device,
            .unit_stride = UnitStride::none};
  auto const k_channels = k.shape[layout.channel_axis(k_leading)];
  require(k_channels == p.channels, "k has ", k_channels, " channels, x has ", p.channels, " (shapes ", shape_text(k),
          " and ", shape_text(x), ")");
  if (k_leading && k.shape[0] != 1) {
    require(k.shape[0] == p.batch, "k has a batch of ", k.shape[0], ", expected 1 or that of x, ", p.batch);
    p.sharing = FilterSharing::per_sample;
  }
  for (int i = 0; i < layout.spatial_rank; ++i) {
    auto const extent = x.shape[layout.spatial_axis(1, i)], filter = k.shape[layout.spatial_axis(k_leading, i)];
    require(extent >= 1, "x: spatial extents must be at least 1, got shape ", shape_text(x));
    require(filter >= 1, "k: spatial extents must be at least 1, got shape ", shape_text(k));
    p.axes[3 - layout.spatial_rank + i] = make_axis(options, i, extent, filter);
  }
  if (x.strides[layout.spatial_axis(1, layout.spatial_rank - 1)] == 1)
    p.unit_stride = UnitStride::innermost;
  else if (x.strides[layout.channel_axis(1)] == 1)
    p.unit_stride = UnitStride::channel;
  if (shortcut) check_vector(*shortcut, "shortcut", p, x, k_is_read);
  return {p, layout, k_leading};
}

// `t` must have the shape, dtype and device of `like`.
void check_like(Tensor const& t, char const* name, Tensor const& like, char const* like_name, bool written) {
  check_tensor(t, name, true);
  require_type(t.dtype == like.dtype, name, " is ", name_of(t.dtype), ", ", like_name, " is ", name_of(like.dtype));
  check_same_device(t, name, like, like_name);
  require(t.rank == like.rank && std::equal(t.shape, t.shape + t.rank, like.shape), name, " must have the shape of ",
          like_name, ", ", shape_text(like), ", got ", shape_text(t));
  if (written) check_writable(t, name);
}

Backend const& backend_of(Problem const& p) {
  auto const found = backend(p.device);
  if (!found)
    fail(FALTUNG_UNSUPPORTED, "x is on ", p.device == FALTUNG_CUDA ? "a CUDA device" : "the CPU",
         ", and no backend for it is loaded (libfaltung_cuda serves CUDA)");
  return *found;
}

// Null when a call that asks for `only` (null: for none by name) may get the implementation.
char const* reason_against(Implementation const& i, Problem const& p, char const* only) {
  if (only && std::strcmp(only, i.name) != 0) return "another one was asked for by name";
  if (!only && i.selection == Selection::by_name) return "serves only when asked for by name";
  if (auto const reason = i.reject(p)) return reason;
  return !only && i.prefer_others ? i.prefer_others(p) : nullptr;
}

std::string explain(Problem const& p, char const* only) {
  std::string text = to_string(p) + "\n";
  auto const found = backend(p.device);
  if (!found) return text + "  no backend is loaded for this device\n";
  char const* chosen = nullptr;
  for (auto const& i : found->implementations) {
    auto const reason = reason_against(i, p, only);
    if (!reason && !chosen) chosen = i.name;
    text +=
        concatenate("  ", i.name, ": ", reason ? std::string("declines: ") + reason : "accepts: " + i.policy(p), "\n");
  }
  return text + "  chosen: " + (chosen ? chosen : "none") + "\n";
}

Implementation const& choose(Problem const& p, char const* only) {
  for (auto const& i : backend_of(p).implementations)
    if (!reason_against(i, p, only)) return i;
  fail(FALTUNG_UNSUPPORTED, "no implementation accepts this call:\n", explain(p, only));
}

Runtime make_runtime(Problem const& p, Implementation const& chosen, Tensor const& x, Options const& options) {
  auto const needed = chosen.workspace(p);
  require(needed <= options.workspace_size && (needed == 0 || options.workspace), "workspace: ", chosen.name, " needs ",
          needed, " bytes, got ", options.workspace ? options.workspace_size : 0);
  return {.parallel = {options.parallel_for, options.parallel_context},
          .stream = options.stream,
          .device_index = x.device_index,
          .workspace = options.workspace};
}

}  // namespace

void forward(Tensor const& x, Tensor const& k, Tensor const* shortcut, Tensor& y, Options const& options) {
  auto const [p, layout, k_leading] = make_call(Direction::forward, x, k, shortcut, options, true, true);
  check_like(y, "y", x, "x", true);
  auto const& chosen = choose(p, options.implementation);
  if (p.batch == 0 || p.channels == 0) return;
  chosen.forward(p, {.x = {x.data, strides_of(x, layout, 1)},
                     .k = {k.data, strides_of(k, layout, k_leading)},
                     .shortcut = const_vector(shortcut),
                     .y = {y.data, strides_of(y, layout, 1)},
                     .runtime = make_runtime(p, chosen, x, options)});
}

void backward(Tensor const& dy, Tensor const& x, Tensor const& k, Tensor const* shortcut, Tensor* dx, Tensor* dk,
              Tensor* dshortcut, Options const& options) {
  auto const [p, layout, k_leading] = make_call(Direction::backward, x, k, shortcut, options, dk || dshortcut, dx);
  check_like(dy, "dy", x, "x", false);
  if (dx) check_like(*dx, "dx", x, "x", true);
  if (dk) check_like(*dk, "dk", k, "k", true);
  if (dshortcut) {
    check_vector(*dshortcut, "dshortcut", p, x, true);
    check_writable(*dshortcut, "dshortcut");
    require_type(dshortcut->dtype == p.shortcut_dtype, "dshortcut is ", name_of(dshortcut->dtype), ", shortcut is ",
                 name_of(p.shortcut_dtype));
  }
  auto const& chosen = choose(p, options.implementation);
  if (p.channels == 0 || (!dx && !dk && !dshortcut)) return;
  BackwardArgs const args{.dy = {dy.data, strides_of(dy, layout, 1)},
                          .x = {x.data, strides_of(x, layout, 1)},
                          .k = {k.data, strides_of(k, layout, k_leading)},
                          .shortcut = const_vector(shortcut),
                          .dx = dx ? View{dx->data, strides_of(*dx, layout, 1)} : View{},
                          .dk = dk ? View{dk->data, strides_of(*dk, layout, k_leading)} : View{},
                          .dshortcut = dshortcut ? Vector{dshortcut->data, dshortcut->strides[0]} : Vector{},
                          .runtime = make_runtime(p, chosen, x, options)};
  if (p.batch == 0) return backend_of(p).fill_zero(p, args);
  chosen.backward(p, args);
}

std::size_t workspace(faltung_direction direction, Tensor const& x, Tensor const& k, Tensor const* shortcut,
                      Options const& options) {
  require(direction == FALTUNG_FORWARD || direction == FALTUNG_BACKWARD,
          "direction: expected a value of faltung_direction, got ", int(direction));
  auto const p = make_call(Direction(int(direction)), x, k, shortcut, options, false, false).problem;
  return choose(p, options.implementation).workspace(p);
}

std::string explain(faltung_direction direction, Tensor const& x, Tensor const& k, Tensor const* shortcut,
                    Options const& options) {
  require(direction == FALTUNG_FORWARD || direction == FALTUNG_BACKWARD,
          "direction: expected a value of faltung_direction, got ", int(direction));
  return explain(make_call(Direction(int(direction)), x, k, shortcut, options, false, false).problem,
                 options.implementation);
}

}  // namespace faltung::long_conv
