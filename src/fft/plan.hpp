// Makes and owns what fft/passes.hpp describes, and chooses lengths.
#pragma once
#include <vector>

#include "fft/passes.hpp"

namespace faltung::fft {

template <typename Real>
class Plan {
 public:
  // length: a product of 2, 3, 5 and 7. max_radix: 8 where the target has 32 registers, else 4.
  Plan(int length, int max_radix);
  Plan(Plan&&) = default;
  Plan(Plan const&) = delete;
  Passes<Real> const& passes() const { return passes_; }
  int slot(int frequency) const;

 private:
  Passes<Real> passes_;
  std::vector<std::vector<Real>> twiddles_;
};

bool is_smooth(int length);  // a product of 2, 3, 5 and 7

// The length >= minimum, a product of 2, 3, 5 and 7 and a multiple of `multiple` (itself one), whose transform costs
// least.
int best_length(int minimum, int multiple = 1);

// Relative cost of one transform: arithmetic per point by radix, times points.
double cost(int length);

}  // namespace faltung::fft
