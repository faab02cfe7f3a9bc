// How a row of tokens is divided among blocks that each walk along a share of it.
#pragma once
#include <algorithm>
#include <cstdint>

namespace faltung::causal_conv1d::cuda {

// Tokens of a share: the one with which `resident` blocks, each of `shares_per_block` shares and `lanes` of them side
// by side, are done first. Beginning a share costs as much as about `start` tokens; none is longer than `longest`, a
// multiple of `multiple`.
inline std::int64_t share_of(std::int64_t time, std::int64_t rows, std::int64_t side_by_side,
                             std::int64_t shares_per_block, std::int64_t resident, std::int64_t start,
                             std::int64_t multiple, std::int64_t longest = INT64_MAX) {
  std::int64_t best = 0, best_cost = INT64_MAX;
  std::int64_t const least = (time - 1) / longest + 1,
                     most = std::max(least, std::min<std::int64_t>(1024, (time + multiple - 1) / multiple));
  for (std::int64_t count = least; count <= most; count += 1 + count / 32) {
    std::int64_t const share = ((time + count - 1) / count + multiple - 1) / multiple * multiple;
    std::int64_t const shares = rows * ((time + share - 1) / share),
                       blocks = (shares + shares_per_block - 1) / shares_per_block * side_by_side;
    std::int64_t const cost = (blocks + resident - 1) / resident * (share + start);
    if (cost < best_cost) best = share, best_cost = cost;
  }
  return best;
}

}  // namespace faltung::causal_conv1d::cuda
