// tests/cases/causal_conv1d.json: every implementation against the double reference, over dtypes, layouts, arrangements
// in memory, cuts and optional tensors. Bounds of the contract: fp64 1e-13, fp32 5e-7, bf16 1.1 r, fp16 1.2 r with r
// the error of correct rounding.
#include "case.hpp"
#include "support/json.hpp"

namespace faltung::testing {
namespace {

double norm(std::vector<double> const& values) {
  double sum = 0;
  for (double const value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(std::vector<double> a, std::vector<double> const& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

double bound(Dtype dtype, std::vector<double> const& expected) {
  auto rounded = expected;
  for (auto& value : rounded) visit_dtype(dtype, [&]<typename T> { value = double(to_float(round_to<T>(value))); });
  double const r = distance(rounded, expected);
  // A result of few elements may happen to be representable: fp32 arithmetic remains allowed.
  double const single = 5e-7 * norm(expected);
  switch (dtype) {
    case FALTUNG_F64:
      return 1e-13 * norm(expected);
    case FALTUNG_F32:
      return single;
    case FALTUNG_F16:
      return std::max(1.2 * r, single);
    default:
      return std::max(1.1 * r, single);
  }
}

void check(Case const& c) {
  SCOPED_TRACE(c.name());
  auto const in = make_inputs(c);
  // The reference on the same values in double: what exact arithmetic gives, unrounded.
  auto wide = c;
  wide.x_dtype = wide.weight_dtype = wide.state_dtype = FALTUNG_F64;
  auto exact = make_inputs(wide);
  for (auto const& [to, from] : {std::pair(&exact.x, &in.x),
                                 {&exact.dy, &in.dy},
                                 {&exact.residual, &in.residual},
                                 {&exact.weight, &in.weight},
                                 {&exact.bias, &in.bias},
                                 {&exact.state, &in.state},
                                 {&exact.dfinal, &in.dfinal}})
    to->assign(from->values());
  auto const expected = run(wide, exact, "cpu.reference", Arrangement::contiguous);
  bool const single = c.x_dtype != FALTUNG_F64;
  for (auto const& implementation : implementations()) {
    auto const got = run(c, in, implementation, c.arrangement);
    auto const results = got.all(), wanted = expected.all();
    for (std::size_t i = 0; i < results.size(); ++i) {
      auto const values = wanted[i].second->values();
      double limit = bound(results[i].second->dtype(), values);
      if (single) limit = std::max(limit, 5e-7 * norm(values));  // a wide parameter of a call that adds in fp32
      EXPECT_LE(distance(results[i].second->values(), values), limit) << implementation << " " << results[i].first;
      EXPECT_TRUE(results[i].second->gaps_intact())
          << implementation << " " << results[i].first << " wrote where no element lies";
    }
  }
}

Json const& cases() {
  static Json const json = read_json(FALTUNG_CASES "/causal_conv1d.json");
  return json;
}

std::int64_t number(Json const& json, char const* name, std::int64_t otherwise) {
  return json.has(name) ? std::int64_t(json[name].number) : otherwise;
}

// Each geometry with every dtype; the rest takes turns, so that every value meets every geometry's neighbours.
template <typename Body>
void for_each_variation(char const* list, Body&& body) {
  std::size_t turn = 0;
  for (auto const& geometry : cases()[list].array)
    for (auto const& dtypes : cases()["dtypes"].array) {
      auto const names = dtypes.strings();
      Case c{.batch = number(geometry, "batch", 2),
             .time = number(geometry, "time", 0),
             .channels = number(geometry, "channels", 1),
             .width = number(geometry, "width", 4),
             .x_dtype = dtype_named(names[0]),
             .weight_dtype = dtype_named(names[1]),
             .state_dtype = dtype_named(names[2])};
      c.layout = turn % 2 ? Layout::channels_last : Layout::channels_first;
      c.activation = turn % 3 ? Activation::silu : Activation::none;
      c.arrangement = writable_arrangements[turn % std::size(writable_arrangements)];
      c.with_parameters = turn % 4 != 1;
      c.with_state = turn % 5 != 2;
      c.extra_column = turn % 2;
      c.wide_index = turn % 3 == 1;
      body(geometry, c);
      turn += 1 + turn % 7;
    }
}

TEST(CausalConv1dGrid, Whole) {
  for_each_variation("grid", [](Json const&, Case const& c) { check(c); });
}

TEST(CausalConv1dGrid, Packed) {
  for_each_variation("cuts", [](Json const& geometry, Case c) {
    c.cut = Cut::packed;
    c.batch = 1;
    c.lengths = geometry["lengths"].integers();
    c.time = number(geometry, "padding", 0);
    for (auto const length : c.lengths) c.time += length;
    check(c);
  });
}

TEST(CausalConv1dGrid, Padded) {
  for_each_variation("cuts", [](Json const& geometry, Case c) {
    c.cut = Cut::padded;
    c.lengths = geometry["lengths"].integers();
    c.batch = std::int64_t(c.lengths.size());
    for (auto const length : c.lengths) c.time = std::max(c.time, length);
    c.time += number(geometry, "padding", 0);
    check(c);
  });
}

TEST(CausalConv1dGrid, Labelled) {
  for_each_variation("grid", [turn = 0](Json const&, Case c) mutable {
    c.cut = Cut::labelled;
    Random random(++turn);
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t t = 0, run = 0, label = 0; t < c.time; ++t, --run) {
        if (run == 0) {
          run = 1 + random.below(turn % 2 ? 9 : 200);
          label = random.below(4) - 1;
        }
        c.labels.push_back(std::int32_t(label));
      }
    check(c);
  });
}

}  // namespace
}  // namespace faltung::testing
