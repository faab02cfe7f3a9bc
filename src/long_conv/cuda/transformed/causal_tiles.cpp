// How a call with several causal axes goes through its parts.
#include "long_conv/cuda/transformed/causal_tiles.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/plane_copies.hpp"
#include "long_conv/cuda/transformed/passes.hpp"
#include "long_conv/cuda/transformed/transformed.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

constexpr std::size_t bytes_at_once = std::size_t(512) << 20;  // of sums and turned images

Precision precision_of(Problem const& p) { return p.x_dtype == FALTUNG_F64 ? Precision::twice : Precision::single; }

// Every second run of `points`, to the run behind it.
void take_level(Axis& axis, PieceAxis& pieces, int points) {
  int const extent = int(axis.extent);
  pieces = {.count = (extent + points - 1) / points / 2, .step = 2 * points, .shift = points, .limit = extent};
  axis = {points, std::min<std::int64_t>(axis.filter, 2 * points), points, Boundary::zero};
}

void take_blocks(Axis& axis, PieceAxis& pieces, int most) {
  int const extent = int(axis.extent), points = std::min(extent, most);
  pieces = {.count = (extent + points - 1) / points, .step = points, .shift = 0, .limit = extent};
  axis = {points, std::min<std::int64_t>(axis.filter, points), 0, Boundary::causal};
}

// An element further on.
template <typename AnyView>
AnyView moved(AnyView view, std::int64_t elements, Dtype dtype) {
  if (view.data) view.data = (char*)view.data + elements * std::int64_t(size_of(dtype));
  return view;
}

}  // namespace

CausalTiles::CausalTiles(Problem const& p)
    : p_(p), real_bytes_(precision_of(p) == Precision::twice ? sizeof(double) : sizeof(float)) {
  std::size_t const channel = points() * (in_space() ? real_bytes_ : 2 * real_bytes_ + size_of(p.x_dtype));
  channels_ = std::clamp<std::int64_t>(bytes_at_once / std::max<std::size_t>(1, channel), 1,
                                       std::max<std::int64_t>(1, p.channels));
  parts_ = parts_of(channels_);
  auto const rounded = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  sum_bytes_ = parts_.empty() ? 0 : rounded(points() * real_bytes_ * channels_);
  turned_bytes_ = parts_.empty() || in_space() ? 0 : rounded(points() * size_of(p.x_dtype) * channels_);
}

std::vector<CausalPart> CausalTiles::parts_of(std::int64_t channels) const {
  CausalPart whole{p_, {}};
  whole.problem.channels = channels;
  whole.problem.unit_stride = UnitStride::innermost;
  for (int i = 0; i < 3; ++i) {
    auto& axis = whole.problem.axes[i];
    if (axis.boundary == Boundary::causal) axis.filter = std::min(axis.filter, axis.extent);
    whole.pieces.axes[i] = {.count = 1, .step = 0, .shift = 0, .limit = int(axis.extent)};
  }
  std::vector<CausalPart> parts;
  auto const add_levels = [&](CausalPart const& of, int axis, int least) {
    for (int points = least; points < p_.axes[axis].extent; points *= 2) {
      parts.push_back(of);
      take_level(parts.back().problem.axes[axis], parts.back().pieces.axes[axis], points);
    }
  };
  int const block = causal_block_of_pairs;
  if (in_cubes()) {
    for (int points = block; points < p_.axes[2].extent; points *= 2) {
      auto level = whole;
      take_level(level.problem.axes[2], level.pieces.axes[2], points);
      add_levels(level, 1, block);
      take_blocks(level.problem.axes[1], level.pieces.axes[1], block);
      parts.push_back(level);
    }
    take_blocks(whole.problem.axes[2], whole.pieces.axes[2], block);
    add_levels(whole, 1, block);
    take_blocks(whole.problem.axes[1], whole.pieces.axes[1], block);
    add_levels(whole, 0, block);
  } else if (in_space()) {
    int const inner = p_.axes[2].boundary == Boundary::causal ? 2 : 1;
    add_levels(whole, inner, block);
    take_blocks(whole.problem.axes[inner], whole.pieces.axes[inner], block);
    parts.push_back(whole);
  } else {
    add_levels(whole, 2, causal_tile);
    whole.turned = true;
    take_blocks(whole.problem.axes[2], whole.pieces.axes[2], causal_tile);
    add_levels(whole, 1, causal_tile);
  }
  return parts;
}

bool CausalTiles::in_cubes() const {
  return in_space() && std::all_of(p_.axes.begin(), p_.axes.end(),
                                   [](Axis const& axis) { return axis.boundary == Boundary::causal; });
}

std::string CausalTiles::text() const {
  auto const nearest = in_cubes()   ? concatenate("cubes of ", causal_block_of_pairs, " points an axis directly")
                       : in_space() ? concatenate("blocks of ", causal_block_of_pairs, " points directly")
                                    : concatenate("tiles of ", causal_tile, " x ", causal_tile, " points directly");
  return concatenate(nearest, ", runs of blocks in ", parts_.size(), " parts by transforms");
}

std::size_t CausalTiles::workspace() const {
  std::size_t most = 0;
  for (auto const& part : parts_) most = std::max(most, plan_of(part.problem, part.pieces).workspace);
  return own_bytes() + most;
}

void CausalTiles::forward(ForwardArgs const& a) const {
  for (std::int64_t first = 0; first < p_.channels; first += channels_) {
    auto range = a;
    range.x = moved(a.x, first * a.x.strides.channel, p_.x_dtype);
    range.k = moved(a.k, first * a.k.strides.channel, p_.k_dtype);
    range.y = moved(a.y, first * a.y.strides.channel, p_.x_dtype);
    range.shortcut = moved(a.shortcut, first * a.shortcut.stride, p_.shortcut_dtype);
    forward_range(range, std::min(channels_, p_.channels - first));
  }
}

void CausalTiles::forward_range(ForwardArgs const& a, std::int64_t channels) const {
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  std::int64_t const planes = p_.axes[0].extent, rows = p_.axes[1].extent, columns = p_.axes[2].extent,
                     image = planes * rows * columns;
  auto* const base = static_cast<char*>(a.runtime.workspace);
  void *const sums = base, *const turned_sums = base + sum_bytes_, *const turned = base + 2 * sum_bytes_;
  Strides const plain{.batch = channels * image, .channel = image, .spatial = {rows * columns, columns, 1}},
      exchanged{.batch = channels * image, .channel = rows, .spatial = {0, 1, channels * rows}};
  auto const parts = channels == channels_ ? parts_ : parts_of(channels);
  if (!parts.empty())
    faltung::cuda::check(cudaMemsetAsync(base, 0, (in_space() ? 1 : 2) * sum_bytes_, stream), "cuda.transformed sums");
  if (!parts.empty() && !in_space()) {
    // Columns take the part of channels, channels and rows that of points.
    PlaneCopies copies{.copies = {}, .to_planes = true};
    ConstView const columns_first{a.x.data,
                                  {.batch = a.x.strides.batch,
                                   .channel = a.x.strides.spatial[2],
                                   .spatial = {a.x.strides.channel, 0, a.x.strides.spatial[1]}}};
    add_copy(copies, columns_first, turned, p_.x_dtype, p_.batch, columns, {channels, 1, rows});
    copy_planes(copies, stream);
  }
  for (auto const& part : parts) {
    auto runtime = a.runtime;
    runtime.workspace = base + own_bytes();
    Passes const call(part.problem, runtime, part.pieces);
    ConstView const x = part.turned ? ConstView{turned, exchanged} : a.x;
    View const to = part.turned ? View{turned_sums, exchanged} : View{sums, plain};
    call.convolve(call.ordered(x), call.ordered(a.k), {}, call.ordered(to), false);
  }
  TileProduct const last{.planes = int(planes),
                         .rows = int(rows),
                         .columns = int(columns),
                         .plane_taps = int(std::min(p_.axes[0].filter, planes)),
                         .row_taps = int(std::min(p_.axes[1].filter, rows)),
                         .column_taps = int(std::min(p_.axes[2].filter, columns)),
                         .channels = int(channels),
                         .batch = int(p_.batch),
                         .per_sample = p_.sharing == FilterSharing::per_sample,
                         .x = a.x,
                         .k = a.k,
                         .y = a.y,
                         .x_dtype = p_.x_dtype,
                         .k_dtype = p_.k_dtype,
                         .shortcut_dtype = p_.shortcut_dtype,
                         .shortcut = a.shortcut,
                         .sums = parts.empty() ? nullptr : sums,
                         .turned_sums = parts.empty() || in_space() ? nullptr : turned_sums};
  if (in_cubes())
    multiply_cubes(last, precision_of(p_), stream);
  else if (in_space())
    store_sums(last, precision_of(p_), stream);
  else
    multiply_tiles(last, precision_of(p_), stream);
}

char const* reject_causal_tiles(Problem const& p) {
  int causal = 0;
  for (auto const& axis : p.axes) {
    causal += axis.boundary == Boundary::causal && axis.extent > 1;
    if (axis.extent == 1 && axis.filter != 1)
      return "takes one tap along an axis of one point beside several causal ones";
    if (axis.extent > std::int64_t(1) << most_log2_length) return "takes up to 4096 padded points an axis of a grid";
  }
  if (p.axes[0].extent > 1 && (p.axes[1].extent == 1 || p.axes[2].extent == 1))
    return "takes two causal axes of a plane as the last two axes";
  if (causal == 3 && cubes_shared_bytes(precision_of(p)) > std::size_t(faltung::cuda::shared_memory_budget()))
    return "a cube of three causal axes exceeds the device's shared memory";
  if (p.batch >= std::int64_t(1) << 15) return "takes several causal axes of fewer than 2^15 samples";
  CausalTiles const tiles(p);
  for (auto const& part : tiles.parts())
    if (auto const reason = reject_plan(plan_of(part.problem, part.pieces))) return reason;
  return nullptr;
}

}  // namespace faltung::long_conv::cuda::transformed
