#include "long_conv/cuda/transformed/plan.hpp"

#include <algorithm>
#include <bit>

namespace faltung::long_conv::cuda::transformed {
namespace {

// What passes through the workspace at once should stay in an L2 of 50 MB; a unit alone may need more.
constexpr std::size_t chunk_bytes = std::size_t(40) << 20;
constexpr std::size_t most_bytes_of_a_unit = std::size_t(512) << 20;
constexpr int images_per_sum = 16;  // partial sums over the batch: chunks hold whole ones

int log2_at_least(std::int64_t points) { return std::max(3, int(std::bit_width(std::uint64_t(points - 1)))); }

TapAxis make_axis(Axis const& axis, bool innermost) {
  int const extent = int(axis.extent);
  TapAxis result{.extent = extent,
                 .positions = 1,
                 .head = 1,
                 .tail = 0,
                 .filter = axis.filter,
                 .centre = axis.centre,
                 .circular = axis.boundary == Boundary::circular,
                 .exact = false};
  if (result.circular) result.centre = (axis.centre % extent + extent) % extent;
  if (extent == 1 && !innermost) {
    result.exact = true;
    return result;
  }
  std::int64_t low = -(extent - 1), high = extent - 1;
  if (!result.circular) {
    low = std::max(low, -axis.centre);
    high = std::min(high, axis.filter - 1 - axis.centre);
    if (low > high) low = high = 0;  // no tap meets an input, and position 0 finds none
  }
  result.exact = result.circular && !innermost && extent >= 8 && std::has_single_bit(unsigned(extent));
  if (result.exact) low = 0;
  result.head = int(std::max<std::int64_t>(0, high + 1));
  result.tail = int(std::max<std::int64_t>(0, -low));
  std::int64_t const least = result.exact ? extent : extent + std::max({std::int64_t(0), high, -low});
  result.positions = innermost ? 2 << log2_at_least((least + 1) / 2) : 1 << log2_at_least(least);
  return result;
}

std::size_t complex_bytes(Precision precision) { return precision == Precision::twice ? 16 : 8; }

}  // namespace

Plan make_plan(Problem const& p) {
  Plan plan{};
  int at = 0;
  for (int i = 0; i < 3; ++i)
    if (p.axes[i].extent == 1) plan.order[at++] = i;
  for (int i = 0; i < 3; ++i)
    if (p.axes[i].extent != 1) plan.order[at++] = i;
  for (int a = 0; a < 3; ++a) plan.axes[a] = make_axis(p.axes[plan.order[a]], a == 2);
  plan.precision = p.x_dtype == FALTUNG_F64 ? Precision::twice : Precision::single;
  auto const longest = std::max({p.axes[0].extent, p.axes[1].extent, p.axes[2].extent});
  plan.filter_precision = p.x_dtype == FALTUNG_F32 && longest <= 64 ? Precision::twice : plan.precision;

  auto const log2 = [](int value) { return int(std::bit_width(unsigned(value))) - 1; };
  plan.log2_rows = log2(plan.axes[2].positions) - 1;
  for (int a = 0; a < 2; ++a) plan.log2_lengths[a] = log2(plan.axes[a].positions);
  bool const exact = plan.active() == 1 && p.direction == Direction::forward &&
                     p.axes[plan.order[2]].boundary == Boundary::causal && plan.axes[2].extent > 1;
  plan.arrangement = plan.active() > 1                    ? Arrangement::grid
                     : exact                              ? Arrangement::causal
                     : plan.log2_rows <= most_log2_length ? Arrangement::row
                                                          : Arrangement::split;
  if (plan.arrangement == Arrangement::split)
    plan.log2_lengths[0] = split_lengths(plan.log2_rows).first,
    plan.log2_lengths[1] = split_lengths(plan.log2_rows).second;
  if (exact) {
    plan.log2_rows = std::max(log2_causal_block + 1, log2_at_least(plan.axes[2].extent));
    plan.log2_segment = std::min(plan.log2_rows, most_log2_segment);
  }

  bool const shared = p.sharing == FilterSharing::shared;
  plan.units = shared ? p.channels : p.batch * p.channels;
  plan.images = shared ? p.batch : 1;
  std::int64_t const row = std::int64_t(1) << plan.log2_rows;
  auto const& outermost = plan.axes[plan.active() == 3 ? 0 : 1];
  plan.filter_size = row * plan.axes[0].positions * plan.axes[1].positions;
  // The axis of the product keeps its points, the middle one is transformed as a whole.
  plan.image_size =
      plan.arrangement == Arrangement::row ? 0 : plan.filter_size / outermost.positions * outermost.extent;
  if (exact) {
    // Between segments: half of an image at a time, and its sums, which are as large.
    plan.filter_size = std::int64_t(1) << plan.log2_segment;
    plan.image_size = plan.log2_rows > plan.log2_segment ? row : 0;
  }

  bool const backward = p.direction == Direction::backward;
  std::size_t const complex = complex_bytes(plan.precision);
  std::size_t const image = complex * plan.image_size * (backward ? 2 : 1);
  std::size_t filter = complex * plan.filter_size * (backward && plan.arrangement != Arrangement::row ? 2 : 1);
  if (plan.precise_filters()) filter += complex_bytes(plan.filter_precision) * plan.filter_size;
  if (exact) filter += complex * plan.image_size / 2;
  plan.chunk_images = plan.images;
  if (image * plan.images > most_bytes_of_a_unit)
    plan.chunk_images =
        std::clamp<std::int64_t>(most_bytes_of_a_unit / image / images_per_sum, 1, 1 << 16) * images_per_sum;
  plan.chunk_images = std::min(plan.chunk_images, plan.images);
  std::int64_t const fit = chunk_bytes / std::max<std::size_t>(1, filter + image * plan.chunk_images);
  plan.chunk_units = std::clamp<std::int64_t>(fit, 1, std::max<std::int64_t>(1, plan.units));
  plan.workspace = Buffers(plan, p.direction, nullptr).bytes;
  return plan;
}

Buffers::Buffers(Plan const& plan, Direction direction, void* base) {
  auto const take = [&](std::size_t size) -> void* {
    auto* const at = base ? static_cast<char*>(base) + bytes : nullptr;
    bytes += (size + 255) / 256 * 256;
    return at;
  };
  auto const table = [&](int log2_length, TableKind kind, Precision precision) {
    Table entry{nullptr, log2_length, kind, precision};
    entry.to = take(complex_bytes(precision) * table_entries(entry));
    tables.tables[tables.count++] = entry;
    return entry.to;
  };
  bool needs_twiddles[lengths] = {}, needs_rotation[lengths] = {};
  if (plan.arrangement == Arrangement::causal) {
    for (int log2 = log2_causal_block; log2 < plan.log2_segment; ++log2)
      needs_twiddles[log2] = needs_rotation[log2] = true;
    for (int log2 = plan.log2_segment; log2 < plan.log2_rows; ++log2)
      needs_twiddles[split_lengths(log2).first] = needs_twiddles[split_lengths(log2).second] = true;
  } else {
    for (int const log2 : plan.log2_lengths) needs_twiddles[log2] = log2 > 0;
    if (plan.arrangement != Arrangement::split) needs_twiddles[plan.log2_rows] = needs_rotation[plan.log2_rows] = true;
  }
  for (auto const precision : {Precision::single, Precision::twice}) {
    if (precision != plan.precision && precision != plan.filter_precision) continue;
    int const twice = precision == Precision::twice;
    for (int log2 = 0; log2 < lengths; ++log2) {
      if (needs_twiddles[log2]) twiddles[twice][log2] = table(log2, TableKind::block_twiddles, precision);
      if (needs_rotation[log2]) rotations[twice][log2] = table(log2, TableKind::rotation, precision);
    }
  }
  bool const between = plan.arrangement == Arrangement::causal && plan.image_size > 0;
  if (plan.arrangement == Arrangement::split || between)
    roots = table(plan.log2_rows + (between ? 1 : 2), TableKind::two_level_roots, Precision::twice);
  std::size_t const complex = complex_bytes(plan.precision);
  filters = take(complex * plan.filter_size * plan.chunk_units);
  std::size_t const image_bytes = complex * plan.image_size * plan.chunk_units * plan.chunk_images;
  if (plan.arrangement == Arrangement::causal) {
    level_filters = take(complex * plan.image_size / 2 * plan.chunk_units);
    images = take(image_bytes / 2);
    sums = take(image_bytes / 2);
    return;
  }
  if (plan.precise_filters())
    precise = take(complex_bytes(plan.filter_precision) * plan.filter_size * plan.chunk_units);
  images = take(image_bytes);
  if (direction == Direction::backward && plan.arrangement != Arrangement::row) {
    gradients = take(image_bytes);
    filter_gradients = take(complex * plan.filter_size * plan.chunk_units);
  }
}

}  // namespace faltung::long_conv::cuda::transformed
