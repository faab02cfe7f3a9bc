// A tensor together with its memory: any dtype, any arrangement of strides, poisoned with NaN before use, with margins
// and gaps that tell when somebody wrote where no element lies.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/dispatch.hpp"
#include "faltung/tensor.hpp"

namespace faltung::testing {

using Shape = std::vector<std::int64_t>;

enum class Arrangement {
  contiguous,
  pitched,         // every axis but the first is one element longer in memory
  misaligned,      // contiguous, from an odd element on
  transposed,      // first axis innermost
  rotated,         // second axis innermost: channels last in a channels-first call
  reversed,        // all strides negative
  every_other,     // innermost stride 2
  expanded_first,  // stride 0 on the first axis: inputs only
  expanded         // stride 0 on every axis, as the gradient of y.sum() has: inputs only
};

inline constexpr Arrangement writable_arrangements[] = {
    Arrangement::contiguous, Arrangement::pitched,  Arrangement::misaligned, Arrangement::transposed,
    Arrangement::rotated,    Arrangement::reversed, Arrangement::every_other};
inline constexpr Arrangement all_arrangements[] = {
    Arrangement::contiguous,  Arrangement::pitched,        Arrangement::misaligned,
    Arrangement::transposed,  Arrangement::rotated,        Arrangement::reversed,
    Arrangement::every_other, Arrangement::expanded_first, Arrangement::expanded};

inline char const* name_of(Arrangement a) {
  constexpr char const* names[] = {"contiguous", "pitched",     "misaligned",     "transposed", "rotated",
                                   "reversed",   "every_other", "expanded_first", "expanded"};
  return names[int(a)];
}

class Array {
 public:
  Array(Dtype dtype, Shape shape, Arrangement arrangement = Arrangement::contiguous)
      : dtype_(dtype), shape_(std::move(shape)), strides_(shape_.size()) {
    auto const rank = int(shape_.size());
    std::vector<int> order;  // innermost first
    if (arrangement == Arrangement::transposed) {
      for (int i = 0; i < rank; ++i) order.push_back(i);
    } else {
      if (arrangement == Arrangement::rotated && rank > 1) order.push_back(1);
      for (int i = rank; i-- > 0;)
        if (!(arrangement == Arrangement::rotated && rank > 1 && i == 1)) order.push_back(i);
    }
    std::int64_t stride = arrangement == Arrangement::every_other ? 2 : 1;
    for (int const axis : order) {
      strides_[axis] = stride;
      stride *= std::max<std::int64_t>(shape_[axis] + (arrangement == Arrangement::pitched && axis != 0), 1);
    }
    if (arrangement == Arrangement::expanded_first && rank > 0) strides_[0] = 0;
    if (arrangement == Arrangement::expanded) strides_.assign(rank, 0);
    std::int64_t low = 0, high = 0;
    for (int axis = 0; axis < rank; ++axis) {
      if (arrangement == Arrangement::reversed) strides_[axis] = -strides_[axis];
      auto const reach = std::max<std::int64_t>(shape_[axis] - 1, 0) * strides_[axis];
      (reach < 0 ? low : high) += reach;
    }
    base_ = margin - low + (arrangement == Arrangement::misaligned);
    memory_.assign((base_ + high + 1 + margin) * size_of(dtype_), 0xff);
    strides_.resize(rank);
  }

  Dtype dtype() const { return dtype_; }
  Shape const& shape() const { return shape_; }
  std::int64_t count() const {
    std::int64_t result = 1;
    for (auto const extent : shape_) result *= extent;
    return result;
  }
  void* data() { return memory_.data() + base_ * size_of(dtype_); }
  Tensor view() const {
    return faltung::view(const_cast<unsigned char*>(memory_.data()) + base_ * size_of(dtype_), dtype_, shape_,
                         strides_);
  }

  // Element i in row-major order of the shape.
  double get(std::int64_t i) const {
    return visit_dtype(dtype_, [&]<typename T> {
      T value;
      std::memcpy(&value, memory_.data() + byte(i), sizeof value);
      return double(to_float(value));
    });
  }
  void set(std::int64_t i, double value) {
    visit_dtype(dtype_, [&]<typename T> {
      T const rounded = round_to<T>(value);
      std::memcpy(memory_.data() + byte(i), &rounded, sizeof rounded);
    });
  }
  std::vector<double> values() const {
    std::vector<double> result(count());
    for (std::int64_t i = 0; i < count(); ++i) result[i] = get(i);
    return result;
  }
  void assign(std::vector<double> const& values) {
    for (std::int64_t i = 0; i < count(); ++i) set(i, values.at(i));
  }
  // The bits of element i, for comparisons that no NaN escapes.
  std::uint64_t bits(std::int64_t i) const {
    std::uint64_t result = 0;
    std::memcpy(&result, memory_.data() + byte(i), size_of(dtype_));
    return result;
  }
  std::vector<std::uint64_t> all_bits() const {
    std::vector<std::uint64_t> result(count());
    for (std::int64_t i = 0; i < count(); ++i) result[i] = bits(i);
    return result;
  }

  std::vector<unsigned char> const& memory() const { return memory_; }
  void poison() { memory_.assign(memory_.size(), 0xff); }

  // Whether every byte that belongs to no element still holds the poison.
  bool gaps_intact() const {
    std::vector<bool> element(memory_.size());
    for (std::int64_t i = 0; i < count(); ++i)
      for (std::int64_t n = 0; n < size_of(dtype_); ++n) element[byte(i) + n] = true;
    for (std::size_t n = 0; n < memory_.size(); ++n)
      if (!element[n] && memory_[n] != 0xff) return false;
    return true;
  }

 private:
  static constexpr std::int64_t margin = 64;

  std::size_t byte(std::int64_t i) const {
    auto at = base_;
    for (auto axis = shape_.size(); axis-- > 0;) {
      at += i % shape_[axis] * strides_[axis];
      i /= shape_[axis];
    }
    return std::size_t(at * size_of(dtype_));
  }

  Dtype dtype_;
  Shape shape_;
  Shape strides_;
  std::int64_t base_ = 0;
  std::vector<unsigned char> memory_;
};

}  // namespace faltung::testing
