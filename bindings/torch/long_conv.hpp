// The bodies of the long_conv operators, for any device: views, fresh outputs, workspace, one C call. What differs between devices
// (threads, stream) comes in by `Launch`. The schemas stand in long_conv.cpp.
#pragma once
#include <tuple>
#include <vector>

#include "launch.hpp"
#include "tensor.hpp"

namespace faltung::torch_binding {

// The non-tensor arguments of the operators.
struct LongConvArguments {
  int64_t boundary;  // faltung_boundary of spatial axis i: bits 2i and 2i + 1
  bool channels_last;
  std::optional<std::vector<int64_t>> const& centre;  // one per spatial axis; none: the rules of the boundaries
};

inline faltung_long_conv_options long_conv_options(Launch const& launch, LongConvArguments const& arguments, int64_t spatial_rank) {
  faltung_long_conv_options options;
  faltung_long_conv_options_default(&options);
  options.layout = arguments.channels_last ? FALTUNG_CHANNELS_LAST : FALTUNG_CHANNELS_FIRST;
  for (int i = 0; i < FALTUNG_MAX_SPATIAL_RANK; ++i) options.boundary[i] = faltung_boundary((arguments.boundary >> (2 * i)) & 3);
  if (arguments.centre) {
    if (int64_t(arguments.centre->size()) != spatial_rank)
      fail(FALTUNG_INVALID_ARGUMENT, "centre: expected one value for each of " + std::to_string(spatial_rank) +
                                         " spatial axes, got " + std::to_string(arguments.centre->size()));
    std::copy(arguments.centre->begin(), arguments.centre->end(), options.centre);
  }
  options.parallel_for = launch.parallel_for;
  options.stream = launch.stream;
  return options;
}

inline Workspace long_conv_workspace(faltung_direction direction, Tensor const& like, faltung_tensor const& x, faltung_tensor const& k,
                                     faltung_tensor const* shortcut, faltung_long_conv_options& options) {
  check(faltung_long_conv_workspace(direction, &x, &k, shortcut, &options, &options.workspace_size));
  Workspace workspace(like, options.workspace_size);
  options.workspace = workspace.data();
  return workspace;
}

inline Tensor long_conv_forward(Launch const& launch, Tensor const& x, Tensor const& k, OptionalTensor const& shortcut,
                                LongConvArguments const& arguments) {
  auto const x_view = input_view(x, "x"), k_view = input_view(k, "k");
  auto shortcut_view = input_view(shortcut, "shortcut");
  auto options = long_conv_options(launch, arguments, x_view.rank - 2);
  auto const workspace = long_conv_workspace(FALTUNG_FORWARD, x, x_view, k_view, pointer(shortcut_view), options);
  Tensor y = fresh_like(x);
  auto y_view = output_view(y, "y");
  check(faltung_long_conv_forward(&x_view, &k_view, pointer(shortcut_view), &y_view, &options));
  return y;
}

struct Wanted {
  bool dx, dk, dshortcut;
};

inline std::tuple<Tensor, Tensor, Tensor> long_conv_backward(Launch const& launch, Tensor const& dy, Tensor const& x, Tensor const& k,
                                                             OptionalTensor const& shortcut, LongConvArguments const& arguments,
                                                             Wanted wanted) {
  auto const dy_view = input_view(dy, "dy"), x_view = input_view(x, "x"), k_view = input_view(k, "k");
  auto shortcut_view = input_view(shortcut, "shortcut");
  if (wanted.dshortcut && !shortcut) fail(FALTUNG_INVALID_ARGUMENT, "dshortcut is wanted, but there is no shortcut");
  auto options = long_conv_options(launch, arguments, x_view.rank - 2);
  auto const workspace = long_conv_workspace(FALTUNG_BACKWARD, x, x_view, k_view, pointer(shortcut_view), options);
  std::tuple<Tensor, Tensor, Tensor> gradients = {wanted.dx ? fresh_like(x) : nothing(x), wanted.dk ? fresh_like(k) : nothing(k),
                                                  wanted.dshortcut ? fresh_like(*shortcut) : nothing(x)};
  auto dx = output_view(std::get<0>(gradients), "dx"), dk = output_view(std::get<1>(gradients), "dk"),
       dshortcut = output_view(std::get<2>(gradients), "dshortcut");
  check(faltung_long_conv_backward(&dy_view, &x_view, &k_view, pointer(shortcut_view), wanted.dx ? &dx : nullptr,
                                   wanted.dk ? &dk : nullptr, wanted.dshortcut ? &dshortcut : nullptr, &options));
  return gradients;
}

}  // namespace faltung::torch_binding
