#include "fft/plan.hpp"

#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace faltung::fft {
namespace {

// Even radices first: the first pass then skips the zero half of a padded input, the last of the inverse the unwanted
// half.
std::vector<int> factors(int length, int max_radix) {
  int twos = 0;
  std::vector<int> odd;
  for (; length % 2 == 0; length /= 2) ++twos;
  for (int const radix : {3, 5, 7})
    for (; length % radix == 0; length /= radix) odd.push_back(radix);
  require(length == 1, "fft: expected a product of 2, 3, 5 and 7");
  std::vector<int> result;
  if (max_radix >= 8) {
    int const fours = twos % 3 == 2 ? 1 : twos % 3 == 1 && twos >= 4 ? 2 : 0;
    for (twos -= 2 * fours; twos >= 3; twos -= 3) result.push_back(8);
    result.insert(result.end(), fours, 4);
  } else {
    for (; twos >= 2; twos -= 2) result.push_back(4);
  }
  if (twos) result.push_back(2);
  result.insert(result.end(), odd.begin(), odd.end());
  return result;
}

}  // namespace

template <typename Real>
Plan<Real>::Plan(int length, int max_radix) {
  passes_.length = length;
  int m = length;
  for (int const radix : factors(length, max_radix)) {
    int const step = m / radix;
    std::vector<Real> twiddle;
    twiddle.reserve(2 * step * (radix - 1));
    for (int j = 0; j < step; ++j)
      for (int q = 1; q < radix; ++q) {
        double const angle = -2 * std::numbers::pi * (double(j) * q) / m;
        twiddle.push_back(Real(std::cos(angle)));
        twiddle.push_back(Real(std::sin(angle)));
      }
    twiddles_.push_back(std::move(twiddle));
    passes_.radix[passes_.count] = radix;
    passes_.block[passes_.count] = m;
    passes_.twiddle[passes_.count++] = twiddles_.back().data();
    m = step;
  }
}

template <typename Real>
int Plan<Real>::slot(int frequency) const {
  int result = 0;
  for (int i = 0; i < passes_.count; ++i) {
    int const radix = passes_.radix[i], step = passes_.block[i] / radix;
    result += frequency % radix * step;
    frequency /= radix;
  }
  return result;
}

template class Plan<float>;
template class Plan<double>;

bool is_smooth(int length) {
  for (int const radix : {2, 3, 5, 7})
    while (length % radix == 0) length /= radix;
  return length == 1;
}

double cost(int length) {
  double per_point = 2;  // loads and stores around the passes
  int rest = length;
  auto const divide = [&](int radix, double arithmetic) {
    for (; rest % radix == 0; rest /= radix) per_point += arithmetic + 1;
  };
  divide(8, 9);
  divide(4, 6);
  divide(2, 4);
  divide(3, 8);
  divide(5, 12);
  divide(7, 17);
  return per_point * length;
}

int best_length(int minimum, int multiple) {
  int best = 0;
  for (int length = (minimum + multiple - 1) / multiple * multiple;; length += multiple) {
    if (best && length > best + best / 4) return best;
    if (is_smooth(length) && (!best || cost(length) < cost(best))) best = length;
  }
}

}  // namespace faltung::fft
