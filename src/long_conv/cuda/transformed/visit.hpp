// Run-time precision and length -> template parameters of the kernels.
#pragma once
#include "long_conv/cuda/transformed/kernels.hpp"

namespace faltung::long_conv::cuda::transformed {

// visit.template operator()<Real, log2_radix>(), for powers of two.
template <typename Visit>
void visit_radix(Precision precision, Length length, Visit&& visit) {
  auto const with = [&]<typename Real> {
    if (log2_radix(length) == 4)
      visit.template operator()<Real, 4>();
    else
      visit.template operator()<Real, 3>();
  };
  if (precision == Precision::twice)
    with.template operator()<double>();
  else
    with.template operator()<float>();
}

// visit.template operator()<Real, log2_radix, odd>(): fp64 has powers of two alone.
template <typename Visit>
void visit_length(Precision precision, Length length, Visit&& visit) {
  if (length.odd == 3)
    visit.template operator()<float, 3, 3>();
  else if (length.odd == 5)
    visit.template operator()<float, log2_radix(Length{5, 3}), 5>();
  else
    visit_radix(precision, length, [&]<typename Real, int radix> { visit.template operator()<Real, radix, 1>(); });
}

// Threads of a block at most; exactly so many where the length is fixed.
template <int log2_radix, int odd, Lines layout = Lines::contiguous, int fixed = 0>
inline constexpr int most_threads =
    fixed     ? 1 << (fixed - log2_radix + log2_block_lines(layout == Lines::contiguous, Length{1, fixed}))
    : odd > 1 ? 256
              : 1 << most_log2_length >> log2_radix;

}  // namespace faltung::long_conv::cuda::transformed
