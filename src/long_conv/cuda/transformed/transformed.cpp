// Which problems cuda.transformed takes, and how a call goes through its passes.
#include "long_conv/cuda/transformed/transformed.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/transformed/causal_tiles.hpp"
#include "long_conv/cuda/transformed/passes.hpp"

namespace faltung::long_conv::cuda::transformed {

namespace {

// Whether y goes by tiles: it has several causal axes.
bool in_tiles(Problem const& p) {
  int causal = 0;
  for (auto const& axis : p.axes) causal += axis.extent > 1 && axis.boundary == Boundary::causal;
  return causal > 1 && p.direction == Direction::forward;
}

}  // namespace

char const* reject(Problem const& p) {
  int axes = 0;
  for (auto const& axis : p.axes) {
    axes += axis.extent > 1;
    if (axis.filter >= std::int64_t(1) << 24 || std::abs(axis.centre) >= std::int64_t(1) << 30)
      return "takes fewer than 2^24 taps an axis, with a centre below 2^30";
  }
  for (auto const& axis : p.axes)
    if (axis.extent > (axes > 1 ? std::int64_t(1) << most_log2_length : std::int64_t(1) << 24))
      return axes > 1 ? "takes up to 4096 padded points an axis of a grid" : "takes up to 2^24 points";
  return in_tiles(p) ? reject_causal_tiles(p) : reject_plan(plan_of(p));
}

std::string policy(Problem const& p) {
  if (in_tiles(p)) {
    CausalTiles const tiles(p);
    return concatenate(tiles.text(), "; ", tiles.channels(), " channels at a time, ", tiles.workspace(),
                       " bytes of workspace");
  }
  auto const& plan = plan_of(p);
  auto const points = [](int log2) { return 1 << log2; };
  std::string text = plan.precision == Precision::twice ? "fp64 transforms of " : "fp32 transforms of ";
  if (plan.arrangement == Arrangement::causal)
    text += plan.direct_segments
                ? concatenate("blocks of ", points(plan.log2_segment), " to ", points(plan.log2_points - 1),
                              " points, segments of ", points(plan.log2_segment), " by direct products of cuda.line")
                : concatenate("blocks of 16 to ", points(plan.log2_points - 1), " points, segments of ",
                              points(plan.log2_segment), " in one kernel");
  else if (plan.arrangement == Arrangement::split)
    text += concatenate(plan.lengths[0].points(), " x ", plan.lengths[1].points(), " points for one axis");
  else
    for (int a = 3 - plan.active(); a < 3; ++a)
      text +=
          concatenate(a > 3 - plan.active() ? " x " : "", a == 2 ? plan.lengths[2].points() : plan.axes[a].positions,
                      plan.toeplitz && a == plan.last() ? " taps directly" : "");
  if (plan.arrangement == Arrangement::row) text += " points in one kernel";
  if (plan.precise_filters()) text += ", of filters in fp64";
  return text + concatenate("; ", plan.chunk_units, plan.chunk_units == 1 ? " filter" : " filters", " with ",
                            plan.chunk_images, plan.chunk_images == 1 ? " image" : " images", " each at a time, ",
                            plan.workspace, " bytes of workspace");
}

std::size_t workspace(Problem const& p) { return in_tiles(p) ? CausalTiles(p).workspace() : plan_of(p).workspace; }

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  if (in_tiles(p)) return CausalTiles(p).forward(a);
  Passes const call(p, a.runtime);
  auto const x = call.ordered(a.x), k = call.ordered(a.k);
  if (call.plan().arrangement == Arrangement::causal)
    call.convolve_causally(x, k, a.shortcut, call.ordered(a.y));
  else
    call.convolve(x, k, a.shortcut, call.ordered(a.y), false);
}

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  if (a.dx.data || a.dk.data) {
    Passes const call(p, a.runtime);
    bool const together = a.dk.data && call.plan().arrangement != Arrangement::row;
    if (together) {
      call.gradients(a);
    } else {
      if (a.dx.data) call.convolve(call.ordered(a.dy), call.ordered(a.k), a.shortcut, call.ordered(a.dx), true);
      if (a.dk.data) call.row_gradient(a);
    }
  }
  if (a.dshortcut.data) shortcut_gradient(p, a, static_cast<cudaStream_t>(a.runtime.stream));
}

}  // namespace faltung::long_conv::cuda::transformed
