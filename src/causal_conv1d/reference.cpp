// The specification of causal_conv1d: plain loops over every token and every tap, double products and sums, one
// rounding.
#include "causal_conv1d/reference.hpp"

#include <cmath>
#include <functional>
#include <vector>

#include "causal_conv1d/cpu/runs.hpp"
#include "causal_conv1d/cpu/window.hpp"
#include "core/dispatch.hpp"

namespace faltung::causal_conv1d::reference {
namespace {

using cpu::Run;

double load(void const* data, Dtype dtype, std::int64_t at) {
  return visit_dtype(dtype, [&]<typename T> { return double(to_float(static_cast<T const*>(data)[at])); });
}

void store(void* data, Dtype dtype, std::int64_t at, double value) {
  visit_dtype(dtype, [&]<typename T> { static_cast<T*>(data)[at] = round_to<T>(value); });
}

std::int64_t offset(Strides const& s, std::int64_t b, std::int64_t c, std::int64_t t) {
  return b * s.batch + c * s.channel + t * s.time;
}

std::int64_t offset(ConstState const& s, std::int64_t n, std::int64_t c, std::int64_t column) {
  return n * s.sequence + c * s.channel + column * s.column;
}

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

double activate(Activation activation, double z) { return activation == Activation::silu ? z / (1 + std::exp(-z)) : z; }

double activate_derivative(Activation activation, double z) {
  return activation == Activation::silu ? sigmoid(z) * (1 + z * (1 - sigmoid(z))) : 1;
}

// One channel of the call: what all directions read.
struct Channel {
  std::vector<double> weight;
  double bias;
  Channel(Problem const& p, ConstWeight const& w, ConstBias const& b, std::int64_t c)
      : weight(p.width), bias(b.data ? load(b.data, p.bias_dtype, c * b.stride) : 0.0) {
    for (int j = 0; w.data && j < p.width; ++j) weight[j] = load(w.data, p.weight_dtype, c * w.channel + j * w.tap);
  }
  // xs[i] is the token W-1 before z[i].
  double convolve(double const* xs) const {
    double z = bias;
    for (std::size_t j = 0; j < weight.size(); ++j) z += weight[j] * xs[j];
    return z;
  }
};

// The W-1 tokens before the run, then its own.
std::vector<double> tokens_of(Problem const& p, ConstView const& x, ConstState const& state, Run const& run,
                              std::int64_t c) {
  std::int64_t const before = p.width - 1;
  std::vector<double> xs(before + run.length(), 0.0);
  for (std::int64_t j = 0; j < before; ++j)
    if (run.state >= 0 && state.data)
      xs[j] = load(state.data, p.state_dtype, offset(state, run.state, c, state.columns - before + j));
  for (std::int64_t t = 0; x.data && t < run.length(); ++t)
    xs[before + t] = load(x.data, p.x_dtype, offset(x.strides, run.row, c, run.begin + t));
  return xs;
}

void fill_zero(Problem const& p, View const& y, std::int64_t c) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t t = 0; t < p.time; ++t) store(y.data, p.x_dtype, offset(y.strides, b, c, t), 0.0);
}

void for_each_channel(Problem const& p, Runtime const& runtime, std::function<void(std::int64_t)> const& body) {
  parallel_for(runtime.parallel, p.channels, [&](std::int64_t begin, std::int64_t end) {
    for (auto c = begin; c < end; ++c) body(c);
  });
}

}  // namespace

void forward(Problem const& p, ForwardArgs const& a) {
  auto const runs = cpu::cut(p, a.cut, a.runtime.check);
  for_each_channel(p, a.runtime, [&](std::int64_t c) {
    Channel const channel(p, a.weight, a.bias, c);
    fill_zero(p, a.y, c);
    for (auto const& run : runs.all) {
      auto const xs = tokens_of(p, a.x, a.initial_state, run, c);
      for (std::int64_t t = 0; t < run.length(); ++t) {
        double y = activate(p.activation, channel.convolve(&xs[t]));
        if (a.residual.data)
          y += load(a.residual.data, p.x_dtype, offset(a.residual.strides, run.row, c, run.begin + t));
        store(a.y.data, p.x_dtype, offset(a.y.strides, run.row, c, run.begin + t), y);
      }
    }
    for (std::int64_t n = 0; a.final_state.data && n < p.sequences; ++n) {
      auto const xs = tokens_of(p, a.x, a.initial_state, runs.last_of(n), c);
      for (std::int64_t column = 0; column < a.final_state.columns; ++column) {
        auto const at = std::int64_t(xs.size()) - a.final_state.columns + column;
        store(a.final_state.data, p.final_state_dtype, offset(a.final_state, n, c, column), at >= 0 ? xs[at] : 0.0);
      }
    }
  });
}

void backward(Problem const& p, BackwardArgs const& a) {
  auto const runs = cpu::cut(p, a.cut, a.runtime.check);
  std::int64_t const before = p.width - 1;
  for_each_channel(p, a.runtime, [&](std::int64_t c) {
    Channel const channel(p, a.weight, a.bias, c);
    std::vector<double> dweight(p.width, 0.0);
    double dbias = 0;
    if (a.dx.data) fill_zero(p, a.dx, c);
    if (a.dresidual.data) fill_zero(p, a.dresidual, c);
    auto const run_backward = [&](Run const& run,
                                  std::int64_t final_of) {  // final_of: the sequence whose state it ends in, or -1
      auto const xs = tokens_of(p, a.x, a.initial_state, run, c);
      std::vector<double> dxs(xs.size(), 0.0);
      for (std::int64_t t = 0; t < run.length(); ++t) {
        double const dy = load(a.dy.data, p.x_dtype, offset(a.dy.strides, run.row, c, run.begin + t));
        double const dz =
            p.activation == Activation::none ? dy : dy * activate_derivative(p.activation, channel.convolve(&xs[t]));
        dbias += dz;
        for (int j = 0; j < p.width; ++j) {
          dweight[j] += dz * xs[t + j];
          dxs[t + j] += dz * channel.weight[j];
        }
        if (a.dresidual.data)
          store(a.dresidual.data, p.x_dtype, offset(a.dresidual.strides, run.row, c, run.begin + t), dy);
      }
      for (std::int64_t column = 0; final_of >= 0 && a.dfinal_state.data && column < a.dfinal_state.columns; ++column)
        if (auto const at = std::int64_t(xs.size()) - a.dfinal_state.columns + column; at >= 0)
          dxs[at] += load(a.dfinal_state.data, p.final_state_dtype, offset(a.dfinal_state, final_of, c, column));
      for (std::int64_t t = 0; a.dx.data && t < run.length(); ++t)
        store(a.dx.data, p.x_dtype, offset(a.dx.strides, run.row, c, run.begin + t), dxs[before + t]);
      if (auto const& d = a.dinitial_state; d.data && run.state >= 0)
        for (std::int64_t column = 0; column < d.columns; ++column)
          store(d.data, p.state_dtype, offset(d, run.state, c, column),
                column >= d.columns - before ? dxs[column - (d.columns - before)] : 0.0);
    };
    // A run with tokens ends in the final state of its sequence if that is taken from it. Runs without tokens only pass
    // gradients through.
    std::size_t next = 0;
    for (std::int64_t n = 0; n < p.sequences; ++n) {
      auto const &first = runs.first[n], &last = runs.last_of(n);
      if (first.length() == 0) run_backward(first, n);
      for (; next < runs.all.size() && runs.all[next].row == last.row && runs.all[next].begin <= last.begin &&
             last.length();
           ++next)
        run_backward(runs.all[next], runs.all[next].begin == last.begin ? n : -1);
    }
    for (int j = 0; a.dweight.data && j < p.width; ++j)
      store(a.dweight.data, p.weight_dtype, c * a.dweight.channel + j * a.dweight.tap, dweight[j]);
    if (a.dbias.data) store(a.dbias.data, p.bias_dtype, c * a.dbias.stride, dbias);
  });
}

void update(Problem const& p, UpdateArgs const& a) {
  auto const runs = cpu::cut(p, a.cut, a.runtime.check);
  if (a.runtime.check) cpu::check_content(p, a, runs);
  std::int64_t const before = p.width - 1, columns = a.state.columns;
  for_each_channel(p, a.runtime, [&](std::int64_t c) {
    Channel const channel(p, a.weight, a.bias, c);
    cpu::RowUpdate row;
    fill_zero(p, a.y, c);
    for (auto const& run : runs.first) {
      cpu::plan_row(p, a, run.state, run.length(), row);
      if (row.source < 0) continue;
      std::vector<double> known(columns + run.length()), xs(before + run.length());
      for (std::int64_t i = 0; i < columns; ++i)
        known[i] = load(a.state.data, p.state_dtype, offset(a.state, row.source, c, i));
      for (std::int64_t t = 0; t < run.length(); ++t)
        known[columns + t] = load(a.x.data, p.x_dtype, offset(a.x.strides, run.row, c, run.begin + t));
      for (std::int64_t i = 0; i < before + run.length(); ++i)
        xs[i] = i < before ? known[row.history[i]] : known[columns + i - before];
      for (std::int64_t t = 0; t < run.length(); ++t)
        store(a.y.data, p.x_dtype, offset(a.y.strides, run.row, c, run.begin + t),
              activate(p.activation, channel.convolve(&xs[t])));
      for (std::size_t i = 0; i < row.next.size(); ++i)
        if (row.next[i] >= 0)
          store(a.state.data, p.state_dtype, offset(a.state, row.destination, c, i), known[row.next[i]]);
    }
  });
}

}  // namespace faltung::causal_conv1d::reference
