// long_conv in the command: explain from shapes, self-test of every implementation against the double reference,
// timing.
#include "faltung/long_conv.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

#include "buffer.hpp"
#include "operators.hpp"

namespace faltung::app {
namespace {

using long_conv::Boundary, long_conv::Direction, long_conv::Layout;
using Shape = std::vector<std::int64_t>;

constexpr char usage[] =
    "  long_conv   --x BxCxS --k CxK (or 1xCxK, BxCxK)   S and K: 1 to 3 extents, for instance --x 8x64x32x32 --k "
    "64x63x63\n"
    "              [--boundary zero|circular|causal (one, or one per axis with commas)] [--channels-last] "
    "[--shortcut]\n"
    "              [--dtype float64|float32|float16|bfloat16] [--k-dtype ...] [--direction forward|backward|both]\n";

Dtype parse_dtype(std::string const& name, std::string const& text) {
  return parse_choice<Dtype>(
      name, text,
      {{"float64", FALTUNG_F64}, {"float32", FALTUNG_F32}, {"float16", FALTUNG_F16}, {"bfloat16", FALTUNG_BF16}});
}

struct Call {
  Shape x_shape, k_shape;
  Dtype x_dtype = FALTUNG_F32, k_dtype = FALTUNG_F32;
  bool shortcut = false;
  long_conv::Options options;
  std::vector<Direction> directions{Direction::forward, Direction::backward};

  std::int64_t channels() const {
    return options.layout == Layout::channels_last ? x_shape.back() : x_shape.size() > 1 ? x_shape[1] : 0;
  }
};

Call parse(CommandLine& line) {
  Call call;
  call.x_shape = parse_shape("x", line.required("x", "8x64x32x32"));
  call.k_shape = parse_shape("k", line.required("k", "64x63x63"));
  auto const dtype = line.option("dtype", "float32");
  call.x_dtype = parse_dtype("dtype", dtype);
  call.k_dtype = parse_dtype("k-dtype", line.option("k-dtype", dtype));
  call.shortcut = line.flag("shortcut");
  if (line.flag("channels-last")) call.options.layout = Layout::channels_last;
  auto const names = split(line.option("boundary", "zero"), ',');
  if (names.size() > FALTUNG_MAX_SPATIAL_RANK)
    throw UsageError("--boundary: expected at most 3 names, got " + std::to_string(names.size()));
  if (names.size() > 1 && names.size() + 2 != call.x_shape.size())
    throw UsageError("--boundary: expected one name or one for each of " +
                     std::to_string(int(call.x_shape.size()) - 2) + " axes, got " + std::to_string(names.size()));
  for (std::size_t axis = 0; axis < FALTUNG_MAX_SPATIAL_RANK; ++axis)
    call.options.boundary.axes[axis] = parse_choice<Boundary>(
        "boundary", names[std::min(axis, names.size() - 1)],
        {{"zero", Boundary::zero}, {"circular", Boundary::circular}, {"causal", Boundary::causal}});
  call.directions = parse_choice<std::vector<Direction>>("direction", line.option("direction", "both"),
                                                         {{"forward", {Direction::forward}},
                                                          {"backward", {Direction::backward}},
                                                          {"both", {Direction::forward, Direction::backward}}});
  return call;
}

std::string explain(CommandLine& line) {
  auto call = parse(line);
  line.finish();
  auto const x = view(nullptr, call.x_dtype, call.x_shape), k = view(nullptr, call.k_dtype, call.k_shape);
  Shape const channels{call.channels()};
  float placeholder = 0;  // the shortcut's data is not read
  if (call.shortcut) call.options.shortcut = view(&placeholder, call.k_dtype, channels);
  std::string text;
  for (auto const direction : call.directions) text += long_conv::explain(direction, x, k, call.options);
  return text;
}

// The implementations that accept, in the order of the list.
std::vector<std::string> accepting(Call const& call, Direction direction) {
  auto const x = view(nullptr, call.x_dtype, call.x_shape), k = view(nullptr, call.k_dtype, call.k_shape);
  auto options = call.options;
  std::istringstream text(long_conv::explain(direction, x, k, options));
  std::vector<std::string> names;
  for (std::string line; std::getline(text, line);) {
    auto const colon = line.find(": ");
    if (line.rfind("  ", 0) != 0 || colon == std::string::npos) continue;
    auto const name = line.substr(2, colon - 2);
    options.implementation = name.c_str();
    if (name != "chosen" &&
        long_conv::explain(direction, x, k, options).find("chosen: " + name + "\n") != std::string::npos)
      names.push_back(name);
  }
  return names;
}

// Inputs and outputs of a call.
struct Tensors {
  Buffer x, k, dy, shortcut, y, dx, dk, dshortcut;
  Tensors(Call const& call, Dtype x_dtype, Dtype k_dtype)
      : x(x_dtype, call.x_shape),
        k(k_dtype, call.k_shape),
        dy(x_dtype, call.x_shape),
        shortcut(k_dtype, {call.channels()}),
        y(x_dtype, call.x_shape),
        dx(x_dtype, call.x_shape),
        dk(k_dtype, call.k_shape),
        dshortcut(k_dtype, {call.channels()}) {}
  void fill() {
    double taps = double(k.count()) / double(std::max<std::int64_t>(shortcut.count(), 1));
    x.fill(1);
    k.fill(2, 1 / std::sqrt(std::max(taps, 1.0)));
    dy.fill(3);
    shortcut.fill(4);
  }
};

void run(Call const& call, Direction direction, Tensors& t, char const* implementation) {
  auto options = call.options;
  options.implementation = implementation;
  if (call.shortcut) options.shortcut = t.shortcut.view();
  std::vector<std::byte> memory(long_conv::workspace(direction, t.x.view(), t.k.view(), options) + 256);
  void* start = memory.data();
  auto space = memory.size();
  if (memory.size() > 256)
    options.workspace = {static_cast<std::byte*>(std::align(256, memory.size() - 256, start, space)),
                         memory.size() - 256};
  if (direction == Direction::forward)
    long_conv::forward(t.x.view(), t.k.view(), t.y.view(), options);
  else
    long_conv::backward(t.dy.view(), t.x.view(), t.k.view(),
                        {.dx = t.dx.view(), .dk = t.dk.view(), .dshortcut = t.dshortcut.view()}, options);
}

// The contract's bound for an output of `dtype`.
double bound(Dtype dtype, double rounding, bool transformed, Shape const& extents) {
  double const single = *std::max_element(extents.begin(), extents.end()) <= 64 ? 3e-7 : 1e-6;
  if (dtype == FALTUNG_F64) return 1e-13;
  if (dtype == FALTUNG_F32) return single;
  return std::max((dtype == FALTUNG_BF16 ? 1.1 : transformed ? 2.2 : 1.2) * rounding, single);
}

// Extents that stand for the kinds of sizes: tiny, odd, prime, even, a filter shorter and longer than the grid.
std::vector<Call> verification_calls(bool fast) {
  struct Size {
    Shape extents, filters;
  };
  std::vector<Size> sizes{{{7}, {13}}, {{32}, {4}}, {{5, 8}, {4, 3}}, {{14, 14}, {27, 27}}, {{3, 4, 5}, {3, 9, 2}}};
  for (Size const& more : {Size{{1}, {3}},
                           {{97}, {193}},
                           {{256}, {256}},
                           {{17, 19}, {8, 41}},
                           {{32, 32}, {63, 63}},
                           {{40, 24}, {7, 7}},
                           {{6, 8, 10}, {11, 15, 19}}})
    if (!fast) sizes.push_back(more);
  std::vector<Call> calls;
  int n = 0;
  for (auto const& [extents, filters] : sizes)
    for (auto const boundary : {Boundary::zero, Boundary::circular, Boundary::causal})
      for (auto const dtype : {FALTUNG_F64, FALTUNG_F32, FALTUNG_F16, FALTUNG_BF16}) {
        Call call;
        bool const last = ++n % 2, per_sample = n % 3 == 0;
        call.x_dtype = call.k_dtype = dtype;
        call.shortcut = n % 5 < 3;
        call.options.boundary = boundary;
        if (last) call.options.layout = Layout::channels_last;
        call.x_shape = {2};
        if (per_sample) call.k_shape = {2};
        for (auto* shape : {&call.x_shape, &call.k_shape}) {
          auto const& spatial = shape == &call.x_shape ? extents : filters;
          if (!last) shape->push_back(2);
          shape->insert(shape->end(), spatial.begin(), spatial.end());
          if (last) shape->push_back(2);
        }
        calls.push_back(std::move(call));
      }
  return calls;
}

std::vector<Check> verify(bool fast, Progress const& progress) {
  auto const calls = verification_calls(fast);
  std::vector<Check> checks;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    auto const& call = calls[n];
    Tensors rounded(call, call.x_dtype, call.k_dtype), exact(call, FALTUNG_F64, FALTUNG_F64);
    rounded.fill();
    exact.x.copy_values(rounded.x);
    exact.k.copy_values(rounded.k);
    exact.dy.copy_values(rounded.dy);
    exact.shortcut.copy_values(rounded.shortcut);
    auto reference = call;
    reference.x_dtype = reference.k_dtype = FALTUNG_F64;
    for (auto const direction : call.directions) {
      run(reference, direction, exact, "cpu.reference");
      for (auto const& name : accepting(call, direction)) {
        Tensors out = rounded;
        run(call, direction, out, name.c_str());
        bool const transformed = name.find("transformed") != std::string::npos;
        auto text = long_conv::explain(direction, out.x.view(), out.k.view(), call.options);
        text.resize(text.find('\n'));
        auto const check = [&](char const* what, Buffer const& got, Buffer const& expected) {
          auto const errors = compare(got, expected);
          Shape const extents(call.x_shape.begin() + 1, call.x_shape.end());
          checks.push_back({name, faltung::name_of(call.x_dtype), what, text, errors.of_result,
                            bound(got.dtype(), errors.of_rounding, transformed, extents)});
        };
        if (direction == Direction::forward) {
          check("y", out.y, exact.y);
        } else {
          check("dx", out.dx, exact.dx);
          check("dk", out.dk, exact.dk);
          check("dshortcut", out.dshortcut, exact.dshortcut);
        }
      }
    }
    progress(n + 1, calls.size());
  }
  return checks;
}

std::vector<Timing> bench(CommandLine& line, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto const call = parse(line);
  line.finish();
  Tensors tensors(call, call.x_dtype, call.k_dtype);
  tensors.fill();
  std::vector<Timing> timings;
  for (auto const direction : call.directions)
    for (auto const& name : accepting(call, direction)) {
      if (name == "cpu.reference") continue;
      run(call, direction, tensors, name.c_str());  // first touch of memory, plans
      std::vector<double> times;
      for (auto const start = Clock::now();
           times.size() < 5 || std::chrono::duration<double>(Clock::now() - start).count() < seconds;) {
        auto const before = Clock::now();
        run(call, direction, tensors, name.c_str());
        times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - before).count());
      }
      std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
      timings.push_back({name, direction == Direction::forward ? "forward" : "backward", times[times.size() / 2]});
    }
  return timings;
}

}  // namespace

Operator const long_conv_operator{"long_conv", usage, explain, verify, bench};

}  // namespace faltung::app
