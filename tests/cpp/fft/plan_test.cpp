// Lengths of transforms, and the slots in which decimation in frequency leaves each frequency.
#include "fft/plan.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace faltung::fft {
namespace {

TEST(FftPlan, SmoothLengthsAreProductsOfSmallPrimes) {
  for (int const length : {1, 2, 3, 4, 5, 6, 7, 8, 14, 63, 100, 1000, 3087, 1 << 20})
    EXPECT_TRUE(is_smooth(length)) << length;
  for (int const length : {11, 13, 22, 97, 143, 1001, 127}) EXPECT_FALSE(is_smooth(length)) << length;
}

TEST(FftPlan, BestLengthIsSmoothLongEnoughAndNotMuchLonger) {
  for (int minimum = 1; minimum < 3000; minimum += 7)
    for (int const multiple : {1, 4, 16}) {
      int const length = best_length(minimum, multiple);
      EXPECT_TRUE(is_smooth(length));
      EXPECT_EQ(length % multiple, 0);
      EXPECT_GE(length, minimum);
      EXPECT_LE(length, minimum + minimum / 2 + 2 * multiple) << minimum;
    }
}

TEST(FftPlan, SlotsArePermutations) {
  for (int const length : {1, 2, 8, 12, 30, 64, 105, 128, 1260})
    for (int const max_radix : {4, 8}) {
      Plan<float> const plan(length, max_radix);
      std::set<int> slots;
      for (int f = 0; f < length; ++f) slots.insert(plan.slot(f));
      EXPECT_EQ(int(slots.size()), length);
      EXPECT_EQ(*slots.begin(), 0);
      EXPECT_EQ(*slots.rbegin(), length - 1);
    }
}

TEST(FftPlan, PassesMultiplyToTheLength) {
  for (int length = 1; length <= 2048; ++length) {
    if (!is_smooth(length)) continue;
    for (int const max_radix : {4, 8}) {
      auto const passes = Plan<double>(length, max_radix).passes();
      int product = 1;
      for (int i = 0; i < passes.count; ++i) {
        EXPECT_LE(passes.radix[i], std::max(max_radix, 7));
        product *= passes.radix[i];
      }
      EXPECT_EQ(product, length);
    }
  }
}

TEST(FftPlan, RoughLengthsAreRefused) { EXPECT_ANY_THROW(Plan<float>(22, 8)); }

}  // namespace
}  // namespace faltung::fft
