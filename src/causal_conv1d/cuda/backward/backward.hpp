// The backward's kernels, from the host.
#pragma once
#include "causal_conv1d/cuda/launch.hpp"

namespace faltung::causal_conv1d::cuda {

std::size_t backward_workspace(Problem const&);
// Chooses among the kernels below.
void backward(Problem const&, BackwardArgs const&);
// The kernels for anything alone.
void backward_any(Problem const&, BackwardArgs const&);

inline constexpr int any_backward_threads = 256, any_backward_tokens = 64;

// A matter of the problem alone, so that sums have the same order on every device.
struct AnyBackwardPolicy {
  int tokens, channels;  // of a tile
  bool along_time;       // neighbouring threads
  std::int64_t time_tiles, tiles, channel_tiles, parts;
};
AnyBackwardPolicy any_backward_policy(Problem const&);

// Channels side by side, 8 or 16 bytes a thread; without dresidual and d(final_state) of W columns.
inline constexpr int channels_backward_threads = 128;
constexpr int channels_backward_blocks(std::int64_t bytes) { return bytes == 2 ? 4 : 3; }  // of a multiprocessor
struct ChannelsBackwardPolicy {
  int lane_bits;  // 1 << lane_bits threads, whole warps, lie side by side along channels; the others take other shares
  std::int64_t side_by_side;               // blocks along channels
  std::int64_t share, row_shares, shares;  // tokens of a share, shares of a row, of all rows
  std::int64_t parts;                      // blocks that work on the same channels
};
ChannelsBackwardPolicy channels_backward_policy(Problem const&);
bool fits_backward_channels(Problem const&, BackwardArgs const&);
void launch_backward_channels(Problem const&, BackwardArgs const&, Cut const&, void* partial);

// Tokens side by side, 16 bytes a lane; likewise.
constexpr int time_backward_threads(bool cuts) { return cuts ? 256 : 128; }  // with cuts, more warps share the marks
constexpr int time_backward_blocks(int width, bool cuts) {                   // of a multiprocessor
  return (width <= 4 ? 6 : 4) * 128 / time_backward_threads(cuts);
}
struct TimeBackwardPolicy {
  std::int64_t share, row_shares, shares;  // tokens of a share, shares of a channel's row, of all its rows
  std::int64_t channel_blocks;             // a warp for each channel
  std::int64_t parts;                      // warps that work on the same channel
};
TimeBackwardPolicy time_backward_policy(Problem const&);
bool fits_backward_time(Problem const&, BackwardArgs const&);
void launch_backward_time(Problem const&, BackwardArgs const&, Cut const&, void* partial);
void launch_backward_time_wide(Problem const&, BackwardArgs const&, Cut const&, void* partial);  // widths above 4

void launch_backward_any(Problem const&, BackwardArgs const&, Cut const&, void* partial);
// What the kernels for one unit stride leave out, after them.
void write_final_gradient(Problem const&, BackwardArgs const&, Cut const&);
void write_residual_gradient(Problem const&, BackwardArgs const&, Cut const&);
// d(initial_state): dxs of the W-1 places before each sequence's first run.
void write_state_gradient(Problem const&, BackwardArgs const&, Cut const&);
// partial [parts, width + 1, channels], double for fp64 and float else, added in a fixed order: dweight, dbias.
void reduce_parameters(Problem const&, BackwardArgs const&, void const* partial, std::int64_t parts);

}  // namespace faltung::causal_conv1d::cuda
