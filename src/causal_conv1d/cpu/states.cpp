#include "causal_conv1d/cpu/states.hpp"

#include "causal_conv1d/cpu/tiles.hpp"

namespace faltung::causal_conv1d::cpu {

void write_final_state(Problem const& p, ForwardArgs const& a, Runs const& runs) {
  constexpr std::int64_t block = 1024;  // channels of one task
  auto const& to = a.final_state;
  auto const channel_blocks = (p.channels + block - 1) / block;
  parallel_for(a.runtime.parallel, p.sequences * channel_blocks, [&](std::int64_t first, std::int64_t last) {
    for (auto item = first; item < last; ++item) {
      auto const n = item / channel_blocks, c = item % channel_blocks * block,
                 channels = std::min(block, p.channels - c);
      auto const& run = runs.last_of(n);
      for (std::int64_t column = 0; column < to.columns; ++column) {
        auto const token = run.length() - to.columns + column;  // of the run; negative: in the state before it
        auto const target = element(to.data, offset(to, n, c, column), size_of(p.final_state_dtype));
        auto const& from = a.initial_state;
        if (token >= 0)
          convert_elements(p.x_dtype,
                           element(a.x.data, offset(a.x.strides, run.row, c, run.begin + token), size_of(p.x_dtype)),
                           a.x.strides.channel, p.final_state_dtype, target, to.channel, channels);
        else if (run.state >= 0 && from.data && token >= 1 - p.width)
          convert_elements(p.state_dtype,
                           element(from.data, offset(from, run.state, c, from.columns + token), size_of(p.state_dtype)),
                           from.channel, p.final_state_dtype, target, to.channel, channels);
        else
          zero_elements(size_of(p.final_state_dtype), target, to.channel, channels);
      }
    }
  });
}

}  // namespace faltung::causal_conv1d::cpu
