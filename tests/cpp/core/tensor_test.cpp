// Checks of single tensors, as every operator's validation uses them.
#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "faltung/tensor.hpp"

namespace faltung {
namespace {

float memory[64];

std::string failure_of(Tensor const& tensor, bool read = true) {
  try {
    check_tensor(tensor, "t", read);
    return "";
  } catch (Failure const& failure) {
    return failure.what();
  }
}

TEST(Tensor, words) {
  EXPECT_EQ(concatenate(shape_text(view(memory, {8, 64, 32}))), "[8, 64, 32]");
  EXPECT_EQ(concatenate(shape_text(view(memory, {}))), "[]");
  EXPECT_EQ(element_count(view(memory, {2, 3, 4})), 24);
  EXPECT_EQ(element_count(view(memory, {2, 0, 4})), 0);
  faltung_tensor empty = view(memory, {1, 3, 0});
  empty.shape[0] = INT64_MAX;
  EXPECT_EQ(element_count(empty), 0);
}

TEST(Tensor, sound_ones_pass) {
  EXPECT_EQ(failure_of(view(memory, {})), "");
  EXPECT_EQ(failure_of(view(memory, {2, 3}, {-3, 1})), "");
  EXPECT_EQ(failure_of(view(memory, {1 << 20, 1 << 20}, {0, 0})), "");
  EXPECT_EQ(failure_of(view(static_cast<float*>(nullptr), {0, 3})), "") << "empty: no data needed";
  EXPECT_EQ(failure_of(view(static_cast<float*>(nullptr), {2, 3}), false), "") << "not read: no data needed";
  EXPECT_EQ(failure_of(view(memory, {0, 5}, {INT64_MIN, INT64_MAX})), "") << "empty: strides mean nothing";
}

TEST(Tensor, unsound_ones_are_told) {
  EXPECT_EQ(failure_of(view(static_cast<float*>(nullptr), {2, 3})), "t: expected data for shape [2, 3], got NULL");
  EXPECT_EQ(failure_of(view(memory, {2, -3})), "t: extents must not be negative, got [2, -3]");
  EXPECT_NE(failure_of(view(memory, {2, 3}, {INT64_MAX / 4 + 1, 1})).find("64 bits"), std::string::npos)
      << "bytes count, not elements";
  EXPECT_EQ(failure_of(view(memory, {2, 3}, {INT64_MAX / 4 - 2, 1})), "");
  EXPECT_NE(failure_of(view(memory, {2, 2}, {INT64_MAX / 5, INT64_MAX / 5})).find("64 bits"), std::string::npos)
      << "axes add up";
}

TEST(Tensor, devices_must_match) {
  auto const on_cpu = view(memory, {2});
  auto const on_gpu = view(memory, {2}, {1}, {FALTUNG_CUDA, 1});
  check_same_device(on_cpu, "a", on_cpu, "b");
  try {
    check_same_device(on_gpu, "a", on_cpu, "b");
    FAIL();
  } catch (Failure const& failure) {
    EXPECT_EQ(failure.status, FALTUNG_INVALID_TYPE);
    EXPECT_STREQ(failure.what(), "a is on cuda:1, b is on cpu");
  }
}

TEST(Tensor, outputs_must_not_share_elements_by_stride_zero) {
  check_writable(view(memory, {2, 3}), "t");
  check_writable(view(memory, {1, 3}, {0, 1}), "t");
  EXPECT_THROW(check_writable(view(memory, {2, 3}, {0, 1}), "t"), Failure);
}

}  // namespace
}  // namespace faltung
