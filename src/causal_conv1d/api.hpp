// causal_conv1d behind the C ABI: validates once, chooses an implementation, runs it. Throws Failure.
#pragma once
#include <string>

#include "causal_conv1d/implementation.hpp"
#include "faltung/faltung.h"

namespace faltung::causal_conv1d {

using Options = faltung_causal_conv1d_options;
using UpdateOptions = faltung_causal_conv1d_update_options;

void forward(faltung_tensor const& x, faltung_tensor const& weight, faltung_tensor& y, faltung_tensor* final_state,
             Options const&);

struct Gradients {
  faltung_tensor *dx = nullptr, *dweight = nullptr, *dbias = nullptr, *dinitial_state = nullptr, *dresidual = nullptr;
};

void backward(faltung_tensor const& dy, faltung_tensor const& x, faltung_tensor const& weight,
              faltung_tensor const* dfinal_state, Gradients const&, Options const&);

void update(faltung_tensor const& x, faltung_tensor& state, faltung_tensor const& weight, faltung_tensor& y,
            UpdateOptions const&);

// A forward that was validated and chosen once, for any time, batch and strides of the tensors' data.
struct Prepared {
  Problem problem;
  Implementation const* chosen;
  bool channels_last;
};
Prepared prepare(faltung_tensor const& x, faltung_tensor const& weight, faltung_tensor const& y,
                 faltung_tensor const* final_state, Options const&);
void launch(Prepared const&, faltung_tensor const& x, faltung_tensor const& weight, faltung_tensor& y,
            faltung_tensor* final_state, Options const&);

std::size_t workspace(faltung_direction, faltung_tensor const& x, faltung_tensor const& weight, Options const&);

std::string explain(faltung_direction, faltung_tensor const& x, faltung_tensor const& weight, Options const&);
std::string explain_update(faltung_tensor const& x, faltung_tensor const& state, faltung_tensor const& weight,
                           UpdateOptions const&);

}  // namespace faltung::causal_conv1d
