// Every implementation x every geometry x every dtype pair against the double reference. Layout, sharing, shortcut,
// arrangement, kind of filter and mean rotate with coprime periods, so that all pairs of them occur; the full product
// runs on a few geometries.
#include "catalogue.hpp"
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

struct Grid : ::testing::Test {
  Grid(Geometry geometry, std::string implementation, std::size_t index)
      : geometry_(std::move(geometry)), implementation_(std::move(implementation)), index_(index) {}
  void TestBody() override {
    auto const pairs = dtype_pairs();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      auto const c = make_case(geometry_, rotated(index_ * 7 + i, pairs[i]), 1 + index_);
      bool const forward = accepts(c, Direction::forward, implementation_);
      bool const backward = accepts(c, Direction::backward, implementation_);
      if (forward || backward) check_against_reference(c, implementation_, forward, backward);
    }
  }

 private:
  Geometry geometry_;
  std::string implementation_;
  std::size_t index_;
};

// Layouts x sharing x arrangements x dtypes on one geometry.
struct Product : ::testing::Test {
  Product(Geometry geometry, std::string implementation)
      : geometry_(std::move(geometry)), implementation_(std::move(implementation)) {}
  void TestBody() override {
    std::size_t n = 0;
    for (auto const [x, k] : dtype_pairs())
      for (auto const layout : {Layout::channels_first, Layout::channels_last})
        for (auto const sharing : {Sharing::plain, Sharing::one, Sharing::per_sample})
          for (auto const arrangement : all_arrangements) {
            auto const c = make_case(geometry_, {.x_dtype = x,
                                                 .k_dtype = k,
                                                 .layout = layout,
                                                 .sharing = sharing,
                                                 .shortcut = n++ % 2 == 0,
                                                 .arrangement = arrangement});
            bool const forward = accepts(c, Direction::forward, implementation_);
            bool const backward = accepts(c, Direction::backward, implementation_);
            if (forward || backward) check_against_reference(c, implementation_, forward, backward);
          }
  }

 private:
  Geometry geometry_;
  std::string implementation_;
};

// Kinds of filter x means x dtypes: where an unscaled spectrum would overflow and a long chain of sums would lose
// digits.
struct Accuracy : ::testing::Test {
  Accuracy(Geometry geometry, std::string implementation)
      : geometry_(std::move(geometry)), implementation_(std::move(implementation)) {}
  void TestBody() override {
    for (auto const [x, k] : dtype_pairs("core_dtypes"))
      for (auto const filter : {FilterKind::white, FilterKind::decaying, FilterKind::smooth})
        for (double const mean : means) {
          auto const c = make_case(geometry_, {.x_dtype = x, .k_dtype = k, .filter = filter, .mean = mean});
          bool const forward = accepts(c, Direction::forward, implementation_);
          bool const backward = accepts(c, Direction::backward, implementation_);
          if (forward || backward) check_against_reference(c, implementation_, forward, backward);
        }
  }

 private:
  Geometry geometry_;
  std::string implementation_;
};

template <typename Test, typename... Extra>
void add(char const* suite, Geometry const& geometry, std::string const& implementation, Extra... extra) {
  ::testing::RegisterTest(suite, (implementation + "/" + geometry.name()).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> ::testing::Test* { return new Test(geometry, implementation, extra...); });
}

}  // namespace

void register_grid_tests() {
  for (auto const& implementation : implementations()) {
    std::size_t index = 0;
    for (auto const& geometry : geometries("grid")) add<Grid>("LongConvGrid", geometry, implementation, index++);
    for (auto const& geometry : geometries("product")) add<Product>("LongConvProduct", geometry, implementation);
    for (auto const& geometry : geometries("accuracy")) add<Accuracy>("LongConvAccuracy", geometry, implementation);
  }
}

}  // namespace faltung::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  faltung::testing::register_grid_tests();
  return RUN_ALL_TESTS();
}
