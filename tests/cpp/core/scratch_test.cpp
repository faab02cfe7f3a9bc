// Memory of a task: aligned, disjoint, kept by the thread, not shared with a nested task.
#include "core/scratch.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace faltung {
namespace {

TEST(Scratch, takes_are_aligned_and_disjoint) {
  auto const bytes = Scratch::padded<float>(3) + Scratch::padded<double>(17) + Scratch::padded<char>(1);
  Scratch scratch(bytes);
  auto* const a = scratch.take<float>(3);
  auto* const b = scratch.take<double>(17);
  auto* const c = scratch.take<char>(1);
  for (void const* p : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % scratch_alignment, 0u);
  EXPECT_EQ(scratch.used(), bytes);
  std::memset(a, 1, 3 * sizeof *a);
  std::memset(b, 2, 17 * sizeof *b);
  std::memset(c, 3, 1);
  EXPECT_EQ(reinterpret_cast<unsigned char*>(a)[11], 1);
  EXPECT_EQ(reinterpret_cast<unsigned char*>(b)[135], 2);
}

void* first_byte(std::size_t bytes) {
  Scratch scratch(bytes);
  return scratch.take<char>(1);
}

TEST(Scratch, is_kept_between_calls) {
  void* const first = first_byte(1 << 20);
  EXPECT_EQ(first_byte(1 << 20), first);
  EXPECT_EQ(first_byte(1000), first) << "a smaller task gets the kept block";
  EXPECT_EQ(first_byte(1 << 20), first) << "and leaves its size known";
}

TEST(Scratch, nested_tasks_have_their_own) {
  Scratch outer(4096);
  char* const a = outer.take<char>(4096);
  std::memset(a, 7, 4096);
  {
    Scratch inner(4096);
    std::memset(inner.take<char>(4096), 9, 4096);
  }
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(a[i], 7);
}

TEST(Scratch, large_blocks_are_given_back) {
  first_byte(scratch_kept + 1);
  Scratch small(64);
  std::memset(small.take<char>(64), 0, 64);
}

}  // namespace
}  // namespace faltung
