// A program outside the tree: the installed veneer, found by find_package.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <faltung/long_conv.hpp>
#include <vector>

int main() {
  std::vector<float> const x{1, 2, 3, 4}, k{1, 10, 100};
  std::vector<float> y(4), dk(3);
  auto const tx = faltung::view(x.data(), {1, 1, 4}), tk = faltung::view(k.data(), {1, 3});
  faltung::long_conv::Options const options{.boundary = faltung::long_conv::Boundary::causal};
  faltung::long_conv::forward(tx, tk, faltung::view(y.data(), {1, 1, 4}), options);
  faltung::long_conv::backward(tx, tx, tk, {.dk = faltung::view(dk.data(), {1, 3})}, options);
  auto const close = [](float got, float expected) { return std::abs(got - expected) < 1e-3f; };
  if (!std::ranges::equal(y, std::vector<float>{1, 12, 123, 234}, close)) return 1;
  if (!std::ranges::equal(dk, std::vector<float>{30, 20, 11}, close)) return 1;
  try {
    faltung::long_conv::forward(tx, faltung::view(k.data(), {3, 1}), faltung::view(y.data(), {1, 1, 4}), options);
    return 2;
  } catch (faltung::Error const& error) {
    if (error.status() != FALTUNG_INVALID_ARGUMENT) return 3;
    std::printf("as it should be: %s\n%s", error.what(), faltung::info().c_str());
  }
  std::fputs(faltung::long_conv::explain(faltung::long_conv::Direction::forward, tx, tk, options).c_str(), stdout);
  return 0;
}
