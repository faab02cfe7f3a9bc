// A long_conv call as data: extents, filters and boundaries from tests/cases/long_conv.json, a variation (dtypes,
// layout, sharing, arrangement, kind of data) from the test; its inputs, its run on one implementation, its double
// reference.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>

#include "../support/array.hpp"
#include "../support/data.hpp"
#include "../support/json.hpp"
#include "faltung/long_conv.hpp"

namespace faltung::testing {

using long_conv::Boundary, long_conv::Direction, long_conv::Layout;

enum class Sharing { plain, one, per_sample };  // k [C, *K], [1, C, *K], [B, C, *K]
enum class FilterKind { white, decaying, smooth };

struct Geometry {
  std::int64_t batch = 2, channels = 3;
  Shape extents, filters;
  std::vector<Boundary> boundaries;
  std::vector<std::optional<std::int64_t>> centres;  // empty: the rules

  int rank() const { return int(extents.size()); }
  std::string name() const {
    std::string text = std::to_string(rank()) + "d_";
    for (std::size_t i = 0; i < extents.size(); ++i) text += (i ? "x" : "") + std::to_string(extents[i]);
    text += "_k";
    for (std::size_t i = 0; i < filters.size(); ++i) text += (i ? "x" : "") + std::to_string(filters[i]);
    for (auto const boundary : boundaries)
      text += boundary == Boundary::zero ? "_zero" : boundary == Boundary::circular ? "_circular" : "_causal";
    for (auto const& centre : centres)
      if (centre) text += "_centre" + std::to_string(*centre);
    return text;
  }
};

struct Variation {
  Dtype x_dtype = FALTUNG_F32, k_dtype = FALTUNG_F32;
  Layout layout = Layout::channels_first;
  Sharing sharing = Sharing::plain;
  bool shortcut = false;
  Arrangement arrangement = Arrangement::contiguous;
  FilterKind filter = FilterKind::white;
  double mean = 0;

  std::string name() const {
    std::string text = std::string(faltung::name_of(x_dtype)) + "_" + faltung::name_of(k_dtype) +
                       (layout == Layout::channels_last ? "_last" : "_first");
    text += sharing == Sharing::plain ? "" : sharing == Sharing::one ? "_one" : "_per_sample";
    if (shortcut) text += "_shortcut";
    text += std::string("_") + testing::name_of(arrangement);
    if (filter != FilterKind::white) text += filter == FilterKind::decaying ? "_decaying" : "_smooth";
    if (mean != 0) text += "_mean" + std::to_string(int(mean));
    return text;
  }
};

struct Case : Geometry, Variation {
  std::uint64_t seed = 1;
  std::string name() const { return Geometry::name() + "_" + Variation::name(); }
  std::int64_t points() const {
    std::int64_t count = 1;
    for (auto const extent : extents) count *= extent;
    return count;
  }
  std::int64_t taps() const {
    std::int64_t count = 1;
    for (auto const filter : filters) count *= filter;
    return count;
  }
  std::int64_t filter_batch() const { return sharing == Sharing::per_sample ? batch : 1; }
  Shape shape_of(std::int64_t leading, bool has_leading, Shape const& spatial) const;
  Shape x_shape() const { return shape_of(batch, true, extents); }
  Shape k_shape() const { return shape_of(filter_batch(), sharing != Sharing::plain, filters); }
};

// [leading, channels, *spatial] in the case's layout.
inline Shape Case::shape_of(std::int64_t leading, bool has_leading, Shape const& spatial) const {
  Shape shape;
  if (has_leading) shape.push_back(leading);
  if (layout == Layout::channels_first) shape.push_back(channels);
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  if (layout == Layout::channels_last) shape.push_back(channels);
  return shape;
}

// Position in row-major order of the array's own shape -> position in channels-first order, for `outer` leading
// entries.
inline std::int64_t channels_first_position(Case const& c, std::int64_t i, std::int64_t inner) {
  if (c.layout == Layout::channels_first) return i;
  auto const channel = i % c.channels, point = i / c.channels % inner, leading = i / c.channels / inner;
  return (leading * c.channels + channel) * inner + point;
}

inline std::vector<double> channels_first(Case const& c, Array const& array, std::int64_t inner) {
  std::vector<double> result(array.count());
  for (std::int64_t i = 0; i < array.count(); ++i) result[channels_first_position(c, i, inner)] = array.get(i);
  return result;
}

inline void assign_channels_first(Case const& c, Array& array, std::vector<double> const& values, std::int64_t inner) {
  for (std::int64_t i = 0; i < array.count(); ++i) array.set(i, values.at(channels_first_position(c, i, inner)));
}

// Filters of unit scale: every |k|'s sum stays below 60 for up to 127 x 127 taps, so that fp16 outputs of mean 100 fit.
inline std::vector<double> make_filter(Case const& c, std::uint64_t seed) {
  auto result = white(c.filter_batch() * c.channels * c.taps(), 0, seed);
  double const taps = double(c.taps());
  for (std::int64_t i = 0; i < std::int64_t(result.size()); ++i) {
    auto m = i % c.taps();
    double decay = 1, smooth = 1;
    for (int axis = c.rank(); axis-- > 0;) {
      double const at = double(m % c.filters[axis]), extent = double(c.filters[axis]);
      m /= c.filters[axis];
      decay *= std::exp(-4 * at / extent);
      smooth *= 1.2 + std::cos(6.283185307179586 * (at + 0.3 * double(1 + i / c.taps() % 7)) / extent);
    }
    if (c.filter == FilterKind::white) result[i] /= std::sqrt(taps);
    if (c.filter == FilterKind::decaying) result[i] *= decay * 2 / std::sqrt(taps);
    if (c.filter == FilterKind::smooth) result[i] = smooth / taps;
  }
  return result;
}

struct Inputs {
  Array x, k, dy;
  std::optional<Array> shortcut;
};

inline Inputs make_inputs(Case const& c) {
  Inputs in{Array(c.x_dtype, c.x_shape(), c.arrangement),
            Array(c.k_dtype, c.k_shape(), c.arrangement),
            Array(c.x_dtype, c.x_shape(), c.arrangement),
            {}};
  assign_channels_first(c, in.x, white(in.x.count(), c.mean, c.seed), c.points());
  assign_channels_first(c, in.k, make_filter(c, c.seed + 1), c.taps());
  assign_channels_first(c, in.dy, white(in.dy.count(), 0, c.seed + 2), c.points());
  if (c.shortcut) {
    in.shortcut.emplace(c.k_dtype, Shape{c.channels}, c.arrangement);
    in.shortcut->assign(white(c.channels, 0, c.seed + 3));
  }
  return in;
}

// Outputs take the inputs' arrangement where that can be written.
struct Outputs {
  Array y, dx, dk, dshortcut;
  explicit Outputs(Case const& c)
      : y(c.x_dtype, c.x_shape(), writable(c)),
        dx(c.x_dtype, c.x_shape(), writable(c)),
        dk(c.k_dtype, c.k_shape(), writable(c)),
        dshortcut(c.shortcut ? c.k_dtype : c.x_dtype, {c.channels}, writable(c)) {}
  static Arrangement writable(Case const& c) {
    return c.arrangement < Arrangement::expanded_first ? c.arrangement : Arrangement::contiguous;
  }
};

inline long_conv::Options options_of(Case const& c, Inputs const& in, char const* implementation) {
  long_conv::Options options{.layout = c.layout, .implementation = implementation};
  if (in.shortcut) options.shortcut = in.shortcut->view();
  for (int i = 0; i < c.rank(); ++i) {
    options.boundary.axes[i] = c.boundaries[i];
    if (!c.centres.empty()) options.centre[i] = c.centres[i];
  }
  return options;
}

// Memory for Options::workspace, 256-byte aligned and poisoned.
class Workspace {
 public:
  Workspace(long_conv::Options& options, Direction direction, Inputs const& in) {
    auto const bytes = long_conv::workspace(direction, in.x.view(), in.k.view(), options);
    memory_.assign(bytes + 255, std::byte(0xff));
    void* start = memory_.data();
    auto space = memory_.size();
    if (bytes) options.workspace = {static_cast<std::byte*>(std::align(256, bytes, start, space)), bytes};
  }

 private:
  std::vector<std::byte> memory_;
};

inline void run_forward(Case const& c, Inputs const& in, Outputs& out, char const* implementation,
                        faltung_parallel_for parallel = nullptr) {
  auto options = options_of(c, in, implementation);
  options.parallel_for = parallel;
  Workspace const workspace(options, Direction::forward, in);
  long_conv::forward(in.x.view(), in.k.view(), out.y.view(), options);
}

struct Wanted {
  bool dx = true, dk = true, dshortcut = true;
};

inline void run_backward(Case const& c, Inputs const& in, Outputs& out, char const* implementation, Wanted wanted = {},
                         faltung_parallel_for parallel = nullptr) {
  auto options = options_of(c, in, implementation);
  options.parallel_for = parallel;
  Workspace const workspace(options, Direction::backward, in);
  long_conv::Gradients gradients;
  if (wanted.dx) gradients.dx = out.dx.view();
  if (wanted.dk) gradients.dk = out.dk.view();
  if (wanted.dshortcut) gradients.dshortcut = out.dshortcut.view();
  long_conv::backward(in.dy.view(), in.x.view(), in.k.view(), gradients, options);
}

// Double results of cpu.reference on the inputs as rounded, channels first. An output that a few numbers decide (its
// few elements, or the few low frequencies that a smooth filter lets through, the sum of the taps that meets a mean)
// may be small by chance, all its sums having cancelled: its conditioning is then the root of the sum of its squared
// terms over its norm; else 1.
struct Expected {
  std::vector<double> y, dx, dk, dshortcut;
  struct Conditioning {
    double y = 1, dx = 1, dk = 1, dshortcut = 1;
  } conditioning = {};
};

inline double norm(std::vector<double> const& values) {
  double sum = 0;
  for (double const value : values) sum += value * value;
  return std::sqrt(sum);
}

inline Expected expect(Case const& c, Inputs const& in) {
  Case d = c;
  d.x_dtype = d.k_dtype = FALTUNG_F64;
  d.layout = Layout::channels_first;
  d.arrangement = Arrangement::contiguous;
  Inputs exact{Array(FALTUNG_F64, d.x_shape()), Array(FALTUNG_F64, d.k_shape()), Array(FALTUNG_F64, d.x_shape()), {}};
  exact.x.assign(channels_first(c, in.x, c.points()));
  exact.k.assign(channels_first(c, in.k, c.taps()));
  exact.dy.assign(channels_first(c, in.dy, c.points()));
  if (in.shortcut) {
    exact.shortcut.emplace(FALTUNG_F64, Shape{c.channels});
    exact.shortcut->assign(in.shortcut->values());
  }
  Outputs out(d);
  run_forward(d, exact, out, "cpu.reference");
  run_backward(d, exact, out, "cpu.reference");
  Expected expected{out.y.values(), out.dx.values(), out.dk.values(), out.dshortcut.values()};
  std::size_t const few = c.filter == FilterKind::white && c.mean == 0 ? 64 : SIZE_MAX;
  if (expected.y.size() >= few && expected.dk.size() >= few && expected.dshortcut.size() >= few) return expected;
  Inputs const unsquared = exact;
  for (Array* array : {&exact.x, &exact.k, &exact.dy, exact.shortcut ? &*exact.shortcut : nullptr})
    for (std::int64_t i = 0; array && i < array->count(); ++i) array->set(i, array->get(i) * array->get(i));
  bool const only_shortcut = expected.y.size() >= few && expected.dk.size() >= few;
  if (!only_shortcut) run_forward(d, exact, out, "cpu.reference");
  run_backward(d, exact, out, "cpu.reference", {.dx = !only_shortcut, .dk = !only_shortcut});
  auto const conditioning = [&](std::vector<double> const& values, Array const& squares) {
    if (values.size() >= few) return 1.0;
    double sum = 0;
    for (std::int64_t i = 0; i < squares.count(); ++i) sum += squares.get(i);
    return std::max(1.0, std::sqrt(sum) / norm(values));
  };
  expected.conditioning = {conditioning(expected.y, out.y), conditioning(expected.dx, out.dx),
                           conditioning(expected.dk, out.dk), conditioning(expected.dshortcut, out.dshortcut)};
  if (!d.shortcut) return expected;
  // The convolution and the shortcut may cancel as wholes.
  exact = unsquared;
  exact.shortcut.reset();
  d.shortcut = false;
  Outputs alone(d);
  run_forward(d, exact, alone, "cpu.reference");
  run_backward(d, exact, alone, "cpu.reference", {.dk = false, .dshortcut = false});
  auto const parts = [](std::vector<double> const& whole, std::vector<double> const& convolution) {
    double sum = 0;
    for (std::size_t i = 0; i < whole.size(); ++i)
      sum += convolution[i] * convolution[i] + (whole[i] - convolution[i]) * (whole[i] - convolution[i]);
    return std::sqrt(sum) / norm(whole);
  };
  expected.conditioning.y = std::max(expected.conditioning.y, parts(expected.y, alone.y.values()));
  expected.conditioning.dx = std::max(expected.conditioning.dx, parts(expected.dx, alone.dx.values()));
  return expected;
}

}  // namespace faltung::testing
