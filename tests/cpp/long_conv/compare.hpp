// The bounds of the contract: normwise relative error against double, measured in units of what correct rounding gives.
#pragma once
#include "catalogue.hpp"

namespace faltung::testing {

inline double relative_error(std::vector<double> const& got, std::vector<double> const& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) sum += (got[i] - expected[i]) * (got[i] - expected[i]);
  double const scale = norm(expected);
  return sum == 0 ? 0 : std::sqrt(sum) / scale;
}

// r: the relative error of the correctly rounded result.
inline double rounding_error(std::vector<double> const& expected, Dtype dtype) {
  auto rounded = expected;
  for (auto& value : rounded) visit_dtype(dtype, [&]<typename T> { value = double(to_float(round_to<T>(value))); });
  return relative_error(rounded, expected);
}

inline double bound_of_dtype(Dtype dtype, Case const& c, std::vector<double> const& expected, bool transformed,
                             double conditioning) {
  bool small = true;
  for (auto const extent : c.extents) small = small && extent <= 64;
  double const single = (small ? 3e-7 : 1e-6) * conditioning;
  // A result of few elements may happen to lie on representable numbers (r near 0): fp32 arithmetic remains allowed.
  switch (dtype) {
    case FALTUNG_F64:
      return 1e-13 * conditioning;
    case FALTUNG_F32:
      return single;
    case FALTUNG_F16:
      return std::max((transformed ? 2.2 : 1.2) * rounding_error(expected, dtype), single);
    default:
      return std::max(1.1 * rounding_error(expected, dtype), single);
  }
}

// A call of mixed dtypes is held to the bound of x's dtype, an output to no less than its own rounding.
inline double bound(Case const& c, std::vector<double> const& expected, Dtype output, bool transformed,
                    double conditioning = 1) {
  return std::max(bound_of_dtype(c.x_dtype, c, expected, transformed, conditioning),
                  bound_of_dtype(output, c, expected, transformed, conditioning));
}

inline void expect_close(Case const& c, Array const& got, std::int64_t inner, std::vector<double> const& expected,
                         std::string const& implementation, char const* what, double conditioning = 1) {
  bool const transformed = implementation.find("transformed") != std::string::npos;
  auto const values = channels_first(c, got, inner);
  double const error = relative_error(values, expected),
               limit = bound(c, expected, got.dtype(), transformed, conditioning);
  EXPECT_TRUE(error <= limit) << implementation << " " << what << " of " << c.name() << ": relative error " << error
                              << ", bound " << limit << " (correct rounding: " << rounding_error(expected, got.dtype())
                              << ")";
  EXPECT_TRUE(got.gaps_intact()) << implementation << " " << what << " of " << c.name() << ": wrote outside the tensor";
}

// Forward, and backward with every gradient, of each implementation that accepts, against the reference; inputs must
// come out unchanged. Without names: of every implementation there is.
inline void check_against_reference(Case const& c, std::vector<std::string> const& names = implementations()) {
  auto const in = make_inputs(c);
  auto const expected = expect(c, in);
  auto const x = in.x.memory(), k = in.k.memory(), dy = in.dy.memory();
  for (auto const& implementation : names) {
    Outputs out(c);
    if (accepts(c, Direction::forward, implementation)) {
      run_forward(c, in, out, implementation.c_str());
      expect_close(c, out.y, c.points(), expected.y, implementation, "y", expected.conditioning.y);
    }
    if (accepts(c, Direction::backward, implementation)) {
      run_backward(c, in, out, implementation.c_str());
      expect_close(c, out.dx, c.points(), expected.dx, implementation, "dx", expected.conditioning.dx);
      expect_close(c, out.dk, c.taps(), expected.dk, implementation, "dk", expected.conditioning.dk);
      expect_close(c, out.dshortcut, 1, expected.dshortcut, implementation, "dshortcut",
                   expected.conditioning.dshortcut);
    }
    EXPECT_TRUE(x == in.x.memory() && k == in.k.memory() && dy == in.dy.memory())
        << implementation << " wrote into an input of " << c.name();
  }
}

}  // namespace faltung::testing
