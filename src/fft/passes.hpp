// The passes of a mixed-radix complex transform, X[f] = sum over n of x[n] exp(-2 pi i n f / length), decimated in
// frequency: natural order in, digit-reversed slots out, in place; the inverse runs the passes backwards, slots in,
// natural order out, unscaled. What is multiplied between the two never needs another order. Plain data, so that SIMD
// sources can use it.
#pragma once

namespace faltung::fft {

inline constexpr int max_passes = 24;

// Pass i splits blocks of block[i] points by radix[i].
template <typename Real>
struct Passes {
  int length = 1;
  int count = 0;
  int radix[max_passes];
  int block[max_passes];
  Real const* twiddle[max_passes];  // [block / radix][radix - 1][cos, sin] of -2 pi j q / block, j the place, q = 1..
                                    // the output
};

}  // namespace faltung::fft
