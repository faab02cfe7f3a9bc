// Dense tensors of the command: memory, reproducible contents, values in double.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/dispatch.hpp"
#include "faltung/tensor.hpp"

namespace faltung::app {

class Buffer {
 public:
  Buffer(Dtype dtype, std::vector<std::int64_t> shape) : dtype_(dtype), shape_(std::move(shape)), count_(1) {
    for (auto const extent : shape_) count_ *= extent;
    memory_.assign(std::size_t(count_ * size_of(dtype)), 0xff);  // NaN in every format
  }
  Tensor view() { return faltung::view(memory_.data(), dtype_, shape_); }
  Dtype dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }

  double get(std::int64_t i) const {
    return visit_dtype(dtype_,
                       [&]<typename T> { return double(to_float(reinterpret_cast<T const*>(memory_.data())[i])); });
  }
  void set(std::int64_t i, double value) {
    visit_dtype(dtype_, [&]<typename T> { reinterpret_cast<T*>(memory_.data())[i] = round_to<T>(value); });
  }
  // Normal-like numbers (sums of four uniform ones) times `scale`, the same on every machine.
  void fill(std::uint64_t seed, double scale = 1) {
    std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (std::int64_t i = 0; i < count_; ++i) {
      double sum = -2;
      for (int n = 0; n < 4; ++n) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += double(state >> 11) * 0x1p-53;
      }
      set(i, sum * 1.7320508075688772 * scale);
    }
  }
  void copy_values(Buffer const& from) {
    for (std::int64_t i = 0; i < count_; ++i) set(i, from.get(i));
  }

 private:
  Dtype dtype_;
  std::vector<std::int64_t> shape_;
  std::int64_t count_;
  std::vector<unsigned char> memory_;
};

// Relative L2 error of `got`, and of `expected` rounded to the dtype of `got`.
struct Errors {
  double of_result = 0, of_rounding = 0;
};

inline Errors compare(Buffer const& got, Buffer const& expected) {
  double error = 0, rounding = 0, scale = 0;
  for (std::int64_t i = 0; i < got.count(); ++i) {
    double const exact = expected.get(i);
    double const rounded = visit_dtype(got.dtype(), [&]<typename T> { return double(to_float(round_to<T>(exact))); });
    error += (got.get(i) - exact) * (got.get(i) - exact);
    rounding += (rounded - exact) * (rounded - exact);
    scale += exact * exact;
  }
  if (scale == 0) return {error == 0 ? 0 : HUGE_VAL, 0};
  return {std::sqrt(error / scale), std::sqrt(rounding / scale)};
}

}  // namespace faltung::app
