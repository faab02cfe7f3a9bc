// Every implementation x every geometry x every dtype pair against the double reference. Layout, sharing, shortcut,
// arrangement, kind of filter and mean rotate, out of step with one another; their full product runs on a few
// geometries.
#include "compare.hpp"

namespace faltung::testing {
namespace {

constexpr double means[] = {0, 8, 100};

Variation rotated(std::size_t n, DtypePair dtypes) {
  return {.x_dtype = dtypes.x,
          .k_dtype = dtypes.k,
          .layout = Layout(n % 2),
          .sharing = Sharing(n % 3),
          .shortcut = n % 5 < 2,
          .arrangement = all_arrangements[n % std::size(all_arrangements)],
          .filter = FilterKind(n / 3 % 3),
          .mean = means[n / 2 % 3]};
}

void grid(Geometry const& geometry, std::size_t index) {
  auto const pairs = dtype_pairs();
  for (std::size_t i = 0; i < pairs.size(); ++i)
    check_against_reference(make_case(geometry, rotated(index * 7 + i, pairs[i]), 1 + index));
}

// Layouts x sharing x arrangements x dtypes.
void product(Geometry const& geometry, std::size_t) {
  std::size_t n = 0;
  for (auto const [x, k] : dtype_pairs())
    for (auto const layout : {Layout::channels_first, Layout::channels_last})
      for (auto const sharing : {Sharing::plain, Sharing::one, Sharing::per_sample})
        for (auto const arrangement : all_arrangements)
          check_against_reference(make_case(geometry, {.x_dtype = x,
                                                       .k_dtype = k,
                                                       .layout = layout,
                                                       .sharing = sharing,
                                                       .shortcut = n++ % 2 == 0,
                                                       .arrangement = arrangement}));
}

// Kinds of filter x means x dtypes: where an unscaled spectrum would overflow and a long chain of sums would lose
// digits.
void accuracy(Geometry const& geometry, std::size_t) {
  for (auto const [x, k] : dtype_pairs("core_dtypes"))
    for (auto const filter : {FilterKind::white, FilterKind::decaying, FilterKind::smooth})
      for (double const mean : means)
        check_against_reference(make_case(geometry, {.x_dtype = x, .k_dtype = k, .filter = filter, .mean = mean}));
}

class GeometryTest : public ::testing::Test {
 public:
  using Body = void (*)(Geometry const&, std::size_t index);
  GeometryTest(Body body, Geometry geometry, std::size_t index)
      : body_(body), geometry_(std::move(geometry)), index_(index) {}
  void TestBody() override { body_(geometry_, index_); }

 private:
  Body body_;
  Geometry geometry_;
  std::size_t index_;
};

void add(char const* suite, char const* list, GeometryTest::Body body) {
  std::size_t index = 0;
  for (auto const& geometry : geometries(list))
    ::testing::RegisterTest(suite, geometry.name().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [=, n = index++]() -> ::testing::Test* { return new GeometryTest(body, geometry, n); });
}

}  // namespace
}  // namespace faltung::testing

int main(int argc, char** argv) {
  using namespace faltung::testing;
  ::testing::InitGoogleTest(&argc, argv);
  add("LongConvGrid", "grid", grid);
  add("LongConvProduct", "product", product);
  add("LongConvAccuracy", "accuracy", accuracy);
  return RUN_ALL_TESTS();
}
