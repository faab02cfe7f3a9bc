// long_conv behind the C ABI: validates once, chooses an implementation, runs it. Throws Failure.
#pragma once
#include <string>

#include "faltung/faltung.h"

namespace faltung::long_conv {

void forward(faltung_tensor const& x, faltung_tensor const& k, faltung_tensor const* shortcut, faltung_tensor& y,
             faltung_long_conv_options const&);

void backward(faltung_tensor const& dy, faltung_tensor const& x, faltung_tensor const& k,
              faltung_tensor const* shortcut, faltung_tensor* dx, faltung_tensor* dk, faltung_tensor* dshortcut,
              faltung_long_conv_options const&);

std::size_t workspace(faltung_direction, faltung_tensor const& x, faltung_tensor const& k,
                      faltung_tensor const* shortcut, faltung_long_conv_options const&);

std::string explain(faltung_direction, faltung_tensor const& x, faltung_tensor const& k, faltung_tensor const* shortcut,
                    faltung_long_conv_options const&);

}  // namespace faltung::long_conv
