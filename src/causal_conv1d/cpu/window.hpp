// Where a row of an update finds the tokens before its own, and what its state holds afterwards.
#pragma once
#include <vector>

#include "causal_conv1d/cpu/runs.hpp"

namespace faltung::causal_conv1d::cpu {

struct RowUpdate {
  std::int64_t source, destination;   // slots; source < 0: padding, destination < 0: nothing is written
  std::vector<std::int64_t> history;  // [W-1]: columns of the source, oldest first
  // [columns written]: what goes into each, -1: left as it is in place, else a column of the source or columns + a
  // token of the row.
  std::vector<std::int64_t> next;
};

// Fills `row` (kept between rows: no allocation in a steady state) for row n with `tokens` tokens.
void plan_row(Problem const&, UpdateArgs const&, std::int64_t n, std::int64_t tokens, RowUpdate& row);

// Fails where an index of the update is out of range. Exported as cut() is.
FALTUNG_API void check_content(Problem const&, UpdateArgs const&, Runs const&);

}  // namespace faltung::causal_conv1d::cpu
