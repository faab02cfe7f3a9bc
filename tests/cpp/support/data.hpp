// Reproducible data: the same numbers on every machine for the same seed.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace faltung::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  std::int64_t below(std::int64_t bound) { return std::int64_t(next() % std::uint64_t(bound)); }
  double normal() { return std::sqrt(-2 * std::log(uniform() + 0x1p-60)) * std::cos(6.283185307179586 * uniform()); }

 private:
  std::uint64_t state_;
};

inline std::vector<double> white(std::int64_t count, double mean, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> result(count);
  for (auto& value : result) value = mean + random.normal();
  return result;
}

}  // namespace faltung::testing
