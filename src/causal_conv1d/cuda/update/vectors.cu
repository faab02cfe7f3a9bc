// Launches update_vectors_kernel.
#include <algorithm>

#include "causal_conv1d/cuda/fits.hpp"
#include "causal_conv1d/cuda/update/update.hpp"
#include "causal_conv1d/cuda/update/vectors.cuh"
#include "cuda/launch.cuh"

namespace faltung::causal_conv1d::cuda {
namespace {

bool channels_inside(UpdateArgs const& a) { return a.state.channel == 1; }

template <typename Storage, int Width, int Columns, StateLayout layout>
void run(Problem const& p, UpdateArgs const& a) {
  std::int64_t const vectors = p.channels / vector_elements<Storage>;
  // Few rows: small blocks, so that more multiprocessors fetch. Many: a thread serves several, reads its weights once,
  // and has the next row in flight.
  int const threads = p.sequences * vectors <= 16384 ? 64 : vectors_update_threads;
  auto const side_by_side = (vectors + threads - 1) / threads;
  constexpr int blocks_per_multiprocessor = 4, rows = 2;
  auto const most =
      std::max<std::int64_t>(1, blocks_per_multiprocessor * faltung::cuda::multiprocessors() / side_by_side);
  auto const step = std::min(p.sequences * vectors <= 16384 ? p.sequences : (p.sequences + rows - 1) / rows, most);
  faltung::cuda::launch<update_vectors_kernel<Storage, Width, Columns, layout>>(
      "causal_conv1d update, vectors",
      {.grid = dim3(unsigned(step), unsigned(side_by_side)),
       .threads = unsigned(threads),
       .stream = stream_of(a.runtime),
       .starts_early = true},
      VectorsUpdate{p, a, step, p.sequences >= 128 && vectors % 32 == 0});
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
