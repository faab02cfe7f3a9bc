#include <memory>

#include "c_api/guarded.hpp"
#include "causal_conv1d/api.hpp"

using namespace faltung;
using c_api::guarded, c_api::required;

namespace {

auto options_or_default(faltung_causal_conv1d_options const* options) {
  return c_api::options_or_default(options, faltung_causal_conv1d_options_default);
}

auto options_or_default(faltung_causal_conv1d_update_options const* options) {
  return c_api::options_or_default(options, faltung_causal_conv1d_update_options_default);
}

}  // namespace

struct faltung_causal_conv1d_prepared {
  causal_conv1d::Prepared value;
};

extern "C" {

void faltung_causal_conv1d_options_default(faltung_causal_conv1d_options* options) {
  if (!options) return;
  *options = {};
  options->size = sizeof *options;
}

faltung_status faltung_causal_conv1d_forward(faltung_tensor const* x, faltung_tensor const* weight, faltung_tensor* y,
                                             faltung_tensor* final_state,
                                             faltung_causal_conv1d_options const* options) {
  return guarded([&] {
    causal_conv1d::forward(required(x, "x"), required(weight, "weight"), required(y, "y"), final_state,
                           options_or_default(options));
  });
}

faltung_status faltung_causal_conv1d_backward(faltung_tensor const* dy, faltung_tensor const* x,
                                              faltung_tensor const* weight, faltung_tensor const* dfinal_state,
                                              faltung_tensor* dx, faltung_tensor* dweight, faltung_tensor* dbias,
                                              faltung_tensor* dinitial_state, faltung_tensor* dresidual,
                                              faltung_causal_conv1d_options const* options) {
  return guarded([&] {
    causal_conv1d::backward(required(dy, "dy"), required(x, "x"), required(weight, "weight"), dfinal_state,
                            {dx, dweight, dbias, dinitial_state, dresidual}, options_or_default(options));
  });
}

faltung_status faltung_causal_conv1d_workspace(faltung_direction direction, faltung_tensor const* x,
                                               faltung_tensor const* weight,
                                               faltung_causal_conv1d_options const* options, size_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") =
        causal_conv1d::workspace(direction, required(x, "x"), required(weight, "weight"), options_or_default(options));
  });
}

faltung_status faltung_causal_conv1d_explain(faltung_direction direction, faltung_tensor const* x,
                                             faltung_tensor const* weight, faltung_causal_conv1d_options const* options,
                                             char* text, int64_t capacity, int64_t* needed) {
  return guarded([&] {
    c_api::copy_text(
        causal_conv1d::explain(direction, required(x, "x"), required(weight, "weight"), options_or_default(options)),
        text, capacity, needed);
  });
}

faltung_status faltung_causal_conv1d_prepare(faltung_tensor const* x, faltung_tensor const* weight,
                                             faltung_tensor const* y, faltung_tensor const* final_state,
                                             faltung_causal_conv1d_options const* options,
                                             faltung_causal_conv1d_prepared** prepared) {
  return guarded([&] {
    auto& result = required(prepared, "prepared");
    result = nullptr;
    result = new faltung_causal_conv1d_prepared{causal_conv1d::prepare(
        required(x, "x"), required(weight, "weight"), required(y, "y"), final_state, options_or_default(options))};
  });
}

faltung_status faltung_causal_conv1d_launch(faltung_causal_conv1d_prepared const* prepared, faltung_tensor const* x,
                                            faltung_tensor const* weight, faltung_tensor* y,
                                            faltung_tensor* final_state, faltung_causal_conv1d_options const* options) {
  return guarded([&] {
    causal_conv1d::launch(required(prepared, "prepared").value, required(x, "x"), required(weight, "weight"),
                          required(y, "y"), final_state, options_or_default(options));
  });
}

void faltung_causal_conv1d_destroy(faltung_causal_conv1d_prepared* prepared) { delete prepared; }

void faltung_causal_conv1d_update_options_default(faltung_causal_conv1d_update_options* options) {
  if (!options) return;
  *options = {};
  options->size = sizeof *options;
}

faltung_status faltung_causal_conv1d_update(faltung_tensor const* x, faltung_tensor* state,
                                            faltung_tensor const* weight, faltung_tensor* y,
                                            faltung_causal_conv1d_update_options const* options) {
  return guarded([&] {
    causal_conv1d::update(required(x, "x"), required(state, "state"), required(weight, "weight"), required(y, "y"),
                          options_or_default(options));
  });
}

faltung_status faltung_causal_conv1d_update_explain(faltung_tensor const* x, faltung_tensor const* state,
                                                    faltung_tensor const* weight,
                                                    faltung_causal_conv1d_update_options const* options, char* text,
                                                    int64_t capacity, int64_t* needed) {
  return guarded([&] {
    c_api::copy_text(causal_conv1d::explain_update(required(x, "x"), required(state, "state"),
                                                   required(weight, "weight"), options_or_default(options)),
                     text, capacity, needed);
  });
}

}  // extern "C"
