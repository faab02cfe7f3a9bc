// The reference itself, against the definition written another way: the full linear convolution as a product of
// polynomials, then folded (circular) or cropped (zero, causal); impulses at every tap; and the adjoint identities of
// the gradients. Impulses and identities are asked of every implementation.
#include "catalogue.hpp"
#include "compare.hpp"

namespace faltung::testing {
namespace {

std::int64_t rule(Boundary boundary, std::int64_t filter) {
  return boundary == Boundary::zero ? filter / 2 : boundary == Boundary::circular ? (filter - 1) / 2 : 0;
}

// One axis of the definition on the full convolution: which output i gets coefficient n; -1: none.
std::int64_t output_of(std::int64_t n, std::int64_t extent, std::int64_t centre, Boundary boundary) {
  auto const i = n - centre;
  if (boundary != Boundary::circular) return i >= 0 && i < extent ? i : -1;
  return ((i % extent) + extent) % extent;
}

// y of one plane by scattering every product x[j] k[m] to the coefficient j + m.
std::vector<double> by_polynomials(Geometry const& g, double const* x, double const* k) {
  std::int64_t points = 1, taps = 1;
  for (auto const extent : g.extents) points *= extent;
  for (auto const filter : g.filters) taps *= filter;
  std::vector<double> y(points);
  for (std::int64_t j = 0; j < points; ++j)
    for (std::int64_t m = 0; m < taps; ++m) {
      std::int64_t at = 0, j_rest = j, m_rest = m, j_scale = points, m_scale = taps;
      bool meets = true;
      for (int axis = 0; axis < g.rank(); ++axis) {
        j_scale /= g.extents[axis];
        m_scale /= g.filters[axis];
        auto const centre =
            !g.centres.empty() && g.centres[axis] ? *g.centres[axis] : rule(g.boundaries[axis], g.filters[axis]);
        auto const i = output_of(j_rest / j_scale + m_rest / m_scale, g.extents[axis], centre, g.boundaries[axis]);
        meets = meets && i >= 0;
        at = at * g.extents[axis] + i;
        j_rest %= j_scale;
        m_rest %= m_scale;
      }
      if (meets) y[at] += x[j] * k[m];
    }
  return y;
}

TEST(LongConvReference, equals_the_product_of_polynomials) {
  std::size_t n = 0;
  for (auto const& geometry : geometries("grid")) {
    auto const sharing = Sharing(n++ % 3);
    auto const c = make_case(
        geometry, {.x_dtype = FALTUNG_F64, .k_dtype = FALTUNG_F64, .sharing = sharing, .shortcut = n % 2 == 0});
    if (c.points() * c.taps() > 1 << 20) continue;
    auto const in = make_inputs(c);
    auto const got = expect(c, in);
    auto const x = in.x.values(), k = in.k.values();
    std::vector<double> y;
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t channel = 0; channel < c.channels; ++channel) {
        auto const plane = (b * c.channels + channel) * c.points();
        auto const filter = (c.sharing == Sharing::per_sample ? b * c.channels + channel : channel) * c.taps();
        auto part = by_polynomials(c, &x[plane], &k[filter]);
        if (in.shortcut)
          for (std::int64_t i = 0; i < c.points(); ++i) part[i] += in.shortcut->get(channel) * x[plane + i];
        y.insert(y.end(), part.begin(), part.end());
      }
    EXPECT_LE(relative_error(got.y, y), 1e-14) << c.name();
  }
}

// y = x shifted by the rule, exactly, for an impulse at each tap: odd and even K, both parities of N, every boundary.
TEST(LongConvReference, impulse_at_every_tap) {
  for (auto const& implementation : implementations())
    for (auto const dtype : {FALTUNG_F64, FALTUNG_F32})
      for (auto const boundary : {Boundary::zero, Boundary::circular, Boundary::causal})
        for (std::int64_t const n : {1, 5, 6, 9, 32})
          for (std::int64_t const taps : {1, 2, 3, 4, 6, 7, 11, 12, 19, 65})
            for (std::int64_t m = 0; m < taps; ++m) {
              auto const c =
                  make_case({.batch = 1, .channels = 1, .extents = {n}, .filters = {taps}, .boundaries = {boundary}},
                            {.x_dtype = dtype, .k_dtype = dtype});
              if (!accepts(c, Direction::forward, implementation)) continue;
              auto in = make_inputs(c);
              for (std::int64_t i = 0; i < n; ++i) in.x.set(i, double(1 + i));
              for (std::int64_t i = 0; i < taps; ++i) in.k.set(i, i == m);
              Outputs out(c);
              run_forward(c, in, out, implementation.c_str());
              for (std::int64_t i = 0; i < n; ++i) {
                auto const j = i + rule(boundary, taps) - m;
                auto const wrapped = ((j % n) + n) % n;
                double const expected = boundary == Boundary::circular ? double(1 + wrapped)
                                        : j >= 0 && j < n              ? double(1 + j)
                                                                       : 0;
                ASSERT_NEAR(out.y.get(i), expected, dtype == FALTUNG_F64 ? 1e-12 : 2e-5)
                    << implementation << ": " << c.name() << ", tap " << m << ", output " << i;
              }
            }
}

// The same in 2D with all taps distinct: an impulse in x reads out the filter, so every tap of an asymmetric filter is
// seen.
TEST(LongConvReference, impulse_in_x_reads_out_the_filter) {
  for (auto const& implementation : implementations())
    for (auto const& geometry : geometries("product")) {
      if (geometry.rank() != 2) continue;
      auto c = make_case(geometry, {.x_dtype = FALTUNG_F64, .k_dtype = FALTUNG_F64});
      c.batch = c.channels = 1;
      if (!accepts(c, Direction::forward, implementation)) continue;
      auto in = make_inputs(c);
      for (std::int64_t j = 0; j < c.points(); ++j) {
        for (std::int64_t i = 0; i < c.points(); ++i) in.x.set(i, i == j);
        Outputs out(c);
        run_forward(c, in, out, implementation.c_str());
        auto const expected = by_polynomials(c, in.x.values().data(), in.k.values().data());
        ASSERT_LE(relative_error(out.y.values(), expected), 1e-13)
            << implementation << ": " << c.name() << ", impulse at " << j;
      }
    }
}

double dot(std::vector<double> const& a, std::vector<double> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// y is linear in x and in (k, shortcut): <dy, y(x', k)> = <dx(dy, k), x'> for any x', <dy, y(x, k', s')> = <dk, k'> +
// <ds, s'>.
TEST(LongConvReference, gradients_are_the_adjoints) {
  for (auto const& implementation : implementations()) {
    std::size_t n = 0;
    for (auto const& geometry : geometries("grid")) {
      auto const c = make_case(
          geometry, {.x_dtype = FALTUNG_F64, .k_dtype = FALTUNG_F64, .sharing = Sharing(n++ % 3), .shortcut = true});
      if (c.points() * c.taps() > 1 << 18 || !accepts(c, Direction::forward, implementation) ||
          !accepts(c, Direction::backward, implementation))
        continue;
      auto const in = make_inputs(c);
      Outputs out(c);
      run_backward(c, in, out, implementation.c_str());
      auto other = make_inputs(make_case(geometry, c, 77));
      double const scale = norm(in.dy.values()) * std::sqrt(double(c.batch * c.channels * c.points()));

      Inputs varied = in;
      varied.x = other.x;
      run_forward(c, varied, out, implementation.c_str());
      EXPECT_NEAR(dot(in.dy.values(), out.y.values()), dot(out.dx.values(), varied.x.values()), 1e-13 * scale)
          << implementation << " dx: " << c.name();

      varied = in;
      varied.k = other.k;
      varied.shortcut = other.shortcut;
      run_forward(c, varied, out, implementation.c_str());
      EXPECT_NEAR(dot(in.dy.values(), out.y.values()),
                  dot(out.dk.values(), other.k.values()) + dot(out.dshortcut.values(), other.shortcut->values()),
                  1e-13 * scale)
          << implementation << " dk, dshortcut: " << c.name();
    }
  }
}

}  // namespace
}  // namespace faltung::testing
