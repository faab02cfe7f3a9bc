// What dispatch chooses, as explain tells it: never the reference, and by extents, dtypes, boundary and direction
// alone.
#include "catalogue.hpp"

namespace faltung::testing {
namespace {

// Kinds that the reference may serve, each with the reason that the documentation gives. None so far.
struct Exception {
  char const* geometry;
  char const* reason;
};
std::vector<Exception> const served_by_the_reference = {};

TEST(LongConvExplain, never_chooses_the_reference) {
  std::size_t n = 0;
  for (char const* list : {"grid", "bits", "product", "accuracy"})
    for (auto const& geometry : geometries(list))
      for (auto const [x, k] : dtype_pairs())
        for (auto const direction : {Direction::forward, Direction::backward}) {
          auto const c =
              make_case(geometry, {.x_dtype = x, .k_dtype = k, .layout = Layout(++n % 2), .sharing = Sharing(n % 3)});
          auto const excused = std::any_of(served_by_the_reference.begin(), served_by_the_reference.end(),
                                           [&](Exception const& e) { return c.Geometry::name() == e.geometry; });
          if (!excused) {
            EXPECT_NE(chosen(c, direction), "cpu.reference") << explain_case(c, direction, nullptr);
            EXPECT_NE(chosen(c, direction), "none") << explain_case(c, direction, nullptr);
          }
        }
}

// The algorithm depends on extents, dtypes, boundary and direction alone.
TEST(LongConvExplain, the_choice_does_not_depend_on_batch_channels_or_layout) {
  for (auto const& geometry : geometries("grid"))
    for (auto const [x, k] : dtype_pairs()) {
      auto const base = make_case(geometry, {.x_dtype = x, .k_dtype = k});
      for (std::int64_t const batch : {1, 64})
        for (std::int64_t const channels : {1, 768})
          for (auto const layout : {Layout::channels_first, Layout::channels_last}) {
            auto c = base;
            c.batch = batch;
            c.channels = channels;
            c.layout = layout;
            EXPECT_EQ(chosen(c, Direction::forward), chosen(base, Direction::forward)) << c.name();
            EXPECT_EQ(chosen(c, Direction::backward), chosen(base, Direction::backward)) << c.name();
          }
    }
}

}  // namespace
}  // namespace faltung::testing
