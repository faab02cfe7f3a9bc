#include "long_conv/api.hpp"

#include "c_api/guarded.hpp"

using namespace faltung;
using c_api::guarded, c_api::required;

namespace {

auto options_or_default(faltung_long_conv_options const* options) {
  return c_api::options_or_default(options, faltung_long_conv_options_default);
}

}  // namespace

extern "C" {

void faltung_long_conv_options_default(faltung_long_conv_options* options) {
  if (!options) return;
  *options = {};
  options->size = sizeof *options;
  for (auto& centre : options->centre) centre = FALTUNG_DEFAULT_CENTRE;
}

faltung_status faltung_long_conv_forward(faltung_tensor const* x, faltung_tensor const* k, faltung_tensor const* shortcut,
                                         faltung_tensor* y, faltung_long_conv_options const* options) {
  return guarded([&] {
    long_conv::forward(required(x, "x"), required(k, "k"), shortcut, required(y, "y"), options_or_default(options));
  });
}

faltung_status faltung_long_conv_backward(faltung_tensor const* dy, faltung_tensor const* x, faltung_tensor const* k,
                                          faltung_tensor const* shortcut, faltung_tensor* dx, faltung_tensor* dk,
                                          faltung_tensor* dshortcut, faltung_long_conv_options const* options) {
  return guarded([&] {
    long_conv::backward(required(dy, "dy"), required(x, "x"), required(k, "k"), shortcut, dx, dk, dshortcut,
                        options_or_default(options));
  });
}

faltung_status faltung_long_conv_workspace(faltung_direction direction, faltung_tensor const* x, faltung_tensor const* k,
                                           faltung_tensor const* shortcut, faltung_long_conv_options const* options,
                                           size_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") = long_conv::workspace(direction, required(x, "x"), required(k, "k"), shortcut,
                                                    options_or_default(options));
  });
}

faltung_status faltung_long_conv_explain(faltung_direction direction, faltung_tensor const* x, faltung_tensor const* k,
                                         faltung_tensor const* shortcut, faltung_long_conv_options const* options,
                                         char* text, int64_t capacity, int64_t* needed) {
  return guarded([&] {
    c_api::copy_text(long_conv::explain(direction, required(x, "x"), required(k, "k"), shortcut,
                                        options_or_default(options)),
                     text, capacity, needed);
  });
}

}  // extern "C"
