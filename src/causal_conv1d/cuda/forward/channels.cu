// Launches forward_channels_kernel.
#include <algorithm>
#include <bit>

#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/forward/channels.cuh"
#include "causal_conv1d/cuda/forward/forward.hpp"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

// Whether thread_load_words() can read them.
template <typename Storage>
bool together(Problem const& p, ForwardArgs const& a) {
  constexpr int bytes = int(vector_elements<Storage> * sizeof(Storage));
  return a.weight.tap == 1 && a.weight.channel == p.width && p.weight_dtype == p.x_dtype &&
         is_aligned(a.weight.data, bytes) &&
         (!a.bias.data || (a.bias.stride == 1 && p.bias_dtype == p.x_dtype && is_aligned(a.bias.data, bytes)));
}

template <typename Storage, int Width, bool adds>
void run(ChannelsForward call, cudaStream_t stream) {
  auto const& p = call.problem;
  constexpr int threads = channels_forward_threads, tokens = channels_forward_tokens<Storage, adds>;
  std::int64_t const vectors = p.channels / vector_elements<Storage>;
  call.lane_bits = std::countr_zero(std::clamp<std::uint64_t>(std::bit_ceil(std::uint64_t(vectors)), 32, threads));
  std::int64_t const side_by_side = (vectors + (1 << call.lane_bits) - 1) >> call.lane_bits,
                     row_tiles = (p.time + tokens - 1) / tokens, tiles_per_block = threads >> call.lane_bits,
                     most = 65535;  // of a grid's second and third axis
  call.together = together<Storage>(p, call.args);
  for (call.first_row = 0; call.first_row < p.batch; call.first_row += most)
    for (call.first_tile = 0; call.first_tile < row_tiles; call.first_tile += most * tiles_per_block) {
      auto const tiles = std::min((row_tiles - call.first_tile + tiles_per_block - 1) / tiles_per_block, most);
      faltung::cuda::launch<forward_channels_kernel<Storage, Width, adds>>(
          "causal_conv1d forward, channels",
          {.grid = dim3(unsigned(side_by_side), unsigned(tiles), unsigned(std::min(p.batch - call.first_row, most))),
           .threads = threads,
           .shared_bytes = call.together ? 0 : sizeof(ChannelsForwardParameters<Storage, Width>),
           .stream = stream,
           .starts_early = true},
          call);
    }
}

}  // namespace

bool fits_forward_channels(Problem const& p, ForwardArgs const& a) {
  std::int64_t const n = 16 / size_of(p.x_dtype);
  return tuned(p) && vectors_along_channels(p, a.x, n) && vectors_along_channels(p, a.y, n) &&
         (!a.residual.data || vectors_along_channels(p, a.residual, n));
}

void launch_forward_channels(Problem const& p, ForwardArgs const& a, Cut const& cut) {
  ChannelsForward const call{
      .problem = p, .args = a, .cut = cut, .lane_bits = 0, .first_row = 0, .first_tile = 0, .together = false};
  visit_tuned(p, [&]<typename Storage, int Width> {
    if (a.residual.data)
      run<Storage, Width, true>(call, stream_of(a.runtime));
    else
      run<Storage, Width, false>(call, stream_of(a.runtime));
  });
}

}  // namespace faltung::causal_conv1d::cuda
