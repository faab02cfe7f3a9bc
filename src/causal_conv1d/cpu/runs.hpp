// The tokens of a call cut into runs: stretches of one row between which nothing is carried. Reads the index tensors,
// whose content it does not trust: runs never overlap and never leave x.
#pragma once
#include <vector>

#include "causal_conv1d/problem.hpp"

namespace faltung::causal_conv1d::cpu {

struct Run {
  std::int64_t row, begin, end;  // tokens of x
  std::int64_t state;            // the sequence whose initial state precedes the run; -1: zeros do
  std::int64_t length() const { return end - begin; }
};

struct Runs {
  std::vector<Run> all;    // those with tokens, by row, then by time
  std::vector<Run> first;  // [sequences], the run that follows the initial state; may be empty
  std::vector<Run> last;   // [sequences], the run that the final state is taken from; empty vector: the same as `first`
  Run const& last_of(std::int64_t n) const { return last.empty() ? first[n] : last[n]; }
};

// With `check` content out of order is an error that says where. Exported for libfaltung_cuda, which checks copies of
// index tensors.
FALTUNG_API Runs cut(Problem const&, Index const&, bool check);

// An element of an index tensor.
std::int64_t read(Index const&, Dtype, std::int64_t at);

}  // namespace faltung::causal_conv1d::cpu
