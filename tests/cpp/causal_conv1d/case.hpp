// One call of causal_conv1d with everything it takes, and its results by the double reference and by any
// implementation.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "faltung/causal_conv1d.hpp"
#include "support/array.hpp"
#include "support/data.hpp"

namespace faltung::testing {

using causal_conv1d::Activation;
using causal_conv1d::Layout;

enum class Cut { whole, packed, labelled, padded };

struct Case {
  std::int64_t batch = 2, time = 0, channels = 0, width = 4;
  Dtype x_dtype = FALTUNG_F32, weight_dtype = FALTUNG_F32, state_dtype = FALTUNG_F32;
  Layout layout = Layout::channels_first;
  Activation activation = Activation::silu;
  Arrangement arrangement = Arrangement::contiguous;
  bool with_parameters = true;    // bias, residual
  bool with_state = true;         // initial_state, dfinal_state
  std::int64_t extra_column = 0;  // 1: states of W columns
  Cut cut = Cut::whole;
  std::vector<std::int64_t> lengths = {};  // packed: of each sequence; padded: of each row
  std::vector<std::int32_t> labels = {};   // labelled: [batch, time]
  bool wide_index = false;                 // int64

  std::int64_t sequences() const { return cut == Cut::packed ? std::int64_t(lengths.size()) : batch; }
  Shape tokens() const {
    return layout == Layout::channels_last ? Shape{batch, time, channels} : Shape{batch, channels, time};
  }
  Shape states() const { return {sequences(), channels, width - 1 + extra_column}; }
  std::string name() const {
    return concatenate("B ", batch, " D ", channels, " T ", time, " W ", width, " ", faltung::name_of(x_dtype), "/",
                       faltung::name_of(weight_dtype), "/", faltung::name_of(state_dtype),
                       layout == Layout::channels_last ? " channels last" : "",
                       activation == Activation::silu ? " silu" : "", " ", name_of(arrangement), " cut ", int(cut),
                       with_parameters ? " bias residual" : "", with_state ? " state" : "",
                       extra_column ? " W columns" : "");
  }
};

// Every implementation that the library lists, best first.
inline std::vector<std::string> implementations() {
  auto const text =
      causal_conv1d::explain(causal_conv1d::Direction::forward, view(static_cast<float*>(nullptr), {1, 1, 1}),
                             view(static_cast<float*>(nullptr), {1, 1}));
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (auto const end = line.find(": "); line.starts_with("  cpu.") && end != std::string::npos)
      names.push_back(line.substr(2, end - 2));
  EXPECT_GE(names.size(), 2u) << text;
  return names;
}

struct Inputs {
  Array x, dy, residual, weight, bias, state, dfinal;
  std::vector<std::int64_t> cut64;
  std::vector<std::int32_t> cut32;
};

inline Array filled(Dtype dtype, Shape shape, Arrangement arrangement, double scale, std::uint64_t seed) {
  Array array(dtype, std::move(shape), arrangement);
  auto values = white(array.count(), 0, seed);
  for (auto& value : values) value *= scale;
  array.assign(values);
  return array;
}

inline Inputs make_inputs(Case const& c, std::uint64_t seed = 1) {
  auto const writable = c.arrangement;
  Inputs in{filled(c.x_dtype, c.tokens(), writable, 1, seed),
            filled(c.x_dtype, c.tokens(), writable, 1, seed + 1),
            filled(c.x_dtype, c.tokens(), writable, 1, seed + 2),
            filled(c.weight_dtype, {c.channels, c.width}, writable, 1 / std::sqrt(double(c.width)), seed + 3),
            filled(c.weight_dtype, {c.channels}, writable, 1, seed + 4),
            filled(c.state_dtype, c.states(), writable, 1, seed + 5),
            filled(c.state_dtype, c.states(), writable, 1, seed + 6),
            {},
            {}};
  if (c.cut == Cut::labelled) in.cut32 = c.labels;
  if (c.cut == Cut::packed) {
    in.cut64 = {0};
    for (auto const length : c.lengths) in.cut64.push_back(in.cut64.back() + length);
  }
  if (c.cut == Cut::padded) in.cut64 = c.lengths;
  if (c.cut != Cut::labelled) in.cut32.assign(in.cut64.begin(), in.cut64.end());
  return in;
}

inline causal_conv1d::Options options_of(Case const& c, Inputs const& in, char const* implementation,
                                         bool backward = false) {
  causal_conv1d::Options o{.activation = c.activation, .layout = c.layout, .implementation = implementation};
  if (c.with_parameters) {
    o.bias = in.bias.view();
    if (!backward) o.residual = in.residual.view();
  }
  if (c.with_state) o.initial_state = in.state.view();
  std::int64_t const count = std::int64_t(in.cut32.size());
  auto const index = [&] { return c.wide_index ? view(in.cut64.data(), {count}) : view(in.cut32.data(), {count}); };
  if (c.cut == Cut::packed) o.cu_seqlens = index();
  if (c.cut == Cut::padded) o.lengths = index();
  if (c.cut == Cut::labelled) o.seq_idx = view(in.cut32.data(), {c.batch, c.time});
  return o;
}

struct Outputs {
  Array y, final_state, dx, dweight, dbias, dstate, dresidual;
  explicit Outputs(Case const& c, Arrangement arrangement)
      : y(c.x_dtype, c.tokens(), arrangement),
        final_state(c.state_dtype, c.states(), arrangement),
        dx(c.x_dtype, c.tokens(), arrangement),
        dweight(c.weight_dtype, {c.channels, c.width}, arrangement),
        dbias(c.weight_dtype, {c.channels}, arrangement),
        dstate(c.state_dtype, c.states(), arrangement),
        dresidual(c.x_dtype, c.tokens(), arrangement) {}
  std::vector<std::pair<char const*, Array const*>> all() const {
    return {{"y", &y},           {"final_state", &final_state}, {"dx", &dx}, {"dweight", &dweight}, {"dbias", &dbias},
            {"dstate", &dstate}, {"dresidual", &dresidual}};
  }
};

// Outputs start as NaN: what is not written shows.
inline Outputs run(Case const& c, Inputs const& in, std::string const& implementation, Arrangement arrangement,
                   faltung_parallel_for parallel = nullptr) {
  Outputs out(c, arrangement);
  auto options = options_of(c, in, implementation.c_str());
  options.parallel_for = parallel;
  causal_conv1d::forward(in.x.view(), in.weight.view(), out.y.view(), out.final_state.view(), options);
  options = options_of(c, in, implementation.c_str(), true);
  options.parallel_for = parallel;
  causal_conv1d::Gradients gradients{
      .dx = out.dx.view(), .dweight = out.dweight.view(), .dbias = out.dbias.view(), .dresidual = out.dresidual.view()};
  std::optional<Tensor> dfinal;
  if (c.with_state) {
    dfinal = in.dfinal.view();
    gradients.dinitial_state = out.dstate.view();
  } else {
    out.dstate.assign(std::vector<double>(out.dstate.count(), 0.0));
  }
  causal_conv1d::backward(in.dy.view(), in.x.view(), in.weight.view(), dfinal, gradients, options);
  return out;
}

inline Dtype dtype_named(std::string const& name) {
  for (auto const dtype : {FALTUNG_F64, FALTUNG_F32, FALTUNG_F16, FALTUNG_BF16})
    if (name == faltung::name_of(dtype)) return dtype;
  throw std::runtime_error("no dtype named " + name);
}

}  // namespace faltung::testing
