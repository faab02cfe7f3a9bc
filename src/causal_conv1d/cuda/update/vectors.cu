// Launches update_vectors_kernel.
#include <algorithm>

#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/update/update.hpp"
#include "causal_conv1d/cuda/update/vectors.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

bool channels_inside(UpdateArgs const& a) { return a.state.channel == 1; }

// rows: of a thread.
template <typename Storage, int n, int Width, int Columns, StateLayout layout>
void launch_kernel(Problem const& p, UpdateArgs const& a, int threads, int rows) {
  std::int64_t const vectors = p.channels / n, side_by_side = (vectors + threads - 1) / threads;
  constexpr int blocks_per_multiprocessor = 4;
  auto const most =
      std::max<std::int64_t>(1, blocks_per_multiprocessor * faltung::cuda::multiprocessors() / side_by_side);
  auto const step = rows == 1 ? p.sequences : std::min((p.sequences + rows - 1) / rows, most);
  bool const staged = p.sequences >= 32 && vectors % 32 == 0;
  faltung::cuda::launch<update_vectors_kernel<Storage, n, Width, Columns, layout>>(
      "causal_conv1d update, vectors",
      {.grid = dim3(unsigned(step), unsigned(side_by_side)),
       .threads = unsigned(threads),
       .stream = stream_of(a.runtime),
       .starts_early = true},
      VectorsUpdate{p, a, step, staged});
}

// Few rows: small words and blocks, so that more multiprocessors fetch and a thread has little to compute (N = 1, D =
// 8192: 1.18 us with 4 bytes, 1.22 with 8; N = 16: 2.1 and 1.6). Many: a thread serves several, reads its weights once,
// and has the next row in flight.
template <typename Storage, int Width, int Columns, StateLayout layout>
void run(Problem const& p, UpdateArgs const& a) {
  constexpr int size = sizeof(Storage);
  std::int64_t const bytes = p.sequences * p.channels * size;
  if (bytes <= 32 * 1024)
    launch_kernel<Storage, 4 / size, Width, Columns, layout>(p, a, 64, 1);
  else if (bytes <= 256 * 1024)
    launch_kernel<Storage, 8 / size, Width, Columns, layout>(p, a, 64, 1);
  else
    launch_kernel<Storage, 16 / size, Width, Columns, layout>(p, a, vectors_update_threads, 2);
}

}  // namespace

bool fits_update_vectors(Problem const& p, UpdateArgs const& a) {
  if (!tuned(p) || p.time != 1 || p.cut != Sequences::whole || p.state_dtype != p.x_dtype) return false;
  std::int64_t const n = 16 / size_of(p.x_dtype);
  if (!vectors_along_channels(p, a.x, n) || !vectors_along_channels(p, a.y, n)) return false;
  std::int64_t const columns = a.state.columns;
  // The first W-1 columns are the last W-1 where there are no others.
  bool const trailing =
      p.window == Window::trailing || (p.window == Window::leading && columns == p.width - 1 && !a.accepted.data);
  if (!trailing || (columns != p.width - 1 && columns != p.width)) return false;
  if (p.channels / n > 65535 * 64) return false;  // more than a grid has blocks along channels
  bool const aligned = is_aligned(a.state.data, 16) && (a.slots == 1 || is_multiple(a.state.sequence, n));
  bool const inside = a.state.channel == columns && (columns == 1 || a.state.column == 1);
  return aligned && (inside || (a.state.channel == 1 && (columns == 1 || is_multiple(a.state.column, n))));
}

void launch_update_vectors(Problem const& p, UpdateArgs const& a) {
  if (p.sequences == 0) return;
  visit_tuned(p, [&]<typename Storage, int Width> {
    visit_int<Width - 1, Width>(a.state.columns, "columns of the state", [&]<int Columns> {
      if (channels_inside(a))
        run<Storage, Width, Columns, StateLayout::channels_inside>(p, a);
      else
        run<Storage, Width, Columns, StateLayout::columns_inside>(p, a);
    });
  });
}

}  // namespace faltung::causal_conv1d::cuda
