#include "long_conv/cuda/transformed/plan.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "cuda/device.hpp"
#include "long_conv/cuda/line/line.hpp"

namespace faltung::long_conv::cuda::transformed {
namespace {

// What passes through the workspace at once, where a call has so much. It need not fit an L2 of 50 MB: kernels of few
// blocks cost more than memory. fp32, 128 x 128 points, both directions, ms: 11.8 at 20 MB, 7.9 at 40, 6.8 at 80, 6.1
// at 160; of a later version 5.45 at 256 and 4.89 at 1024.
constexpr std::size_t chunk_bytes = std::size_t(1024) << 20;
constexpr std::size_t most_bytes_of_a_unit = std::size_t(512) << 20;
constexpr int images_per_sum = 16;  // partial sums over the batch: chunks hold whole ones

// Taps of a causal axis of a grid: 2 N multiply-adds a point directly, about 170 + N / 8 in blocks.
constexpr int least_toeplitz_in_blocks = 128;

int log2_at_least(std::int64_t points) { return std::max(3, int(std::bit_width(std::uint64_t(points - 1)))); }

// The cheapest length of at least so many points: an odd part costs a pass.
Length length_at_least(std::int64_t points, bool odd_allowed) {
  Length best{1, log2_at_least(points)};
  double cost = double(best.points());
  for (int const odd : {3, 5}) {
    Length const other{odd, log2_at_least((points + odd - 1) / odd)};
    if (!odd_allowed || 1.1 * other.points() >= cost) continue;
    best = other;
    cost = 1.1 * other.points();
  }
  return best;
}

}  // namespace

TapAxis make_axis(Axis const& axis, bool innermost, bool odd_allowed, bool cyclic) {
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
  result.exact =
      result.circular && (innermost ? cyclic && 2 * length_at_least(extent / 2, odd_allowed).points() == extent
                                    : length_at_least(extent, odd_allowed).points() == extent);
  if (result.exact) low = 0;
  result.head = int(std::max<std::int64_t>(0, high + 1));
  result.tail = int(std::max<std::int64_t>(0, -low));
  std::int64_t const least = result.exact ? extent : extent + std::max({std::int64_t(0), high, -low});
  result.positions = innermost && !result.exact ? 2 * length_at_least((least + 1) / 2, odd_allowed).points()
                                                : length_at_least(least, odd_allowed).points();
  return result;
}

namespace {

std::size_t complex_bytes(Precision precision) { return precision == Precision::twice ? 16 : 8; }

}  // namespace

Problem line_problem(Problem const& p, std::int64_t batch, std::int64_t channels, std::int64_t points) {
  Axis axis;
  for (auto const& a : p.axes)
    if (a.extent > 1) axis = a;
  auto result = p;
  result.batch = batch, result.channels = channels, result.sharing = FilterSharing::shared;
  result.axes = {Axis{}, Axis{}, {points, std::min(points, axis.filter), 0, Boundary::causal}};
  return result;
}

Plan make_plan(Problem const& p, Pieces const& pieces) {
  Plan plan{};
  int at = 0;
  for (int i = 0; i < 3; ++i)
    if (p.axes[i].extent == 1) plan.order[at++] = i;
  // A causal axis is the outermost of the others: the product's.
  auto const is_exact = [&](int i) {
    return p.axes[i].boundary == Boundary::causal && p.direction == Direction::forward;
  };
  for (bool const exact : {true, false})
    for (int i = 0; i < 3; ++i)
      if (p.axes[i].extent != 1 && is_exact(i) == exact) plan.order[at++] = i;
  for (int a = 0; a < 3; ++a) plan.pieces.axes[a] = pieces.axes[plan.order[a]];
  auto const longest = std::max({p.axes[0].extent, p.axes[1].extent, p.axes[2].extent});
  plan.precision = p.x_dtype == FALTUNG_F64 ? Precision::twice : Precision::single;
  plan.filter_precision = p.x_dtype == FALTUNG_F32 && longest <= 64 ? Precision::twice : plan.precision;
  // fp64 has lengths of powers of two alone, and so have axes whose filters are transformed in fp64.
  bool const odd_allowed = plan.precision == Precision::single && longest > 64;
  for (int a = 0; a < 3; ++a)
    plan.axes[a] = make_axis(p.axes[plan.order[a]], a == 2, odd_allowed, p.axes[plan.order[1]].extent > 1);
  auto const length_of = [](int points) {
    int const log2 = std::countr_zero(unsigned(points));
    return Length{points >> log2, log2};
  };
  bool const exact = plan.active() == 1 && is_exact(plan.order[2]) && plan.axes[2].extent > 1;
  plan.toeplitz = plan.active() > 1 && is_exact(plan.order[plan.last()]);
  plan.toeplitz_pairs = plan.active() == 3 && is_exact(plan.order[1]);
  plan.arrangement = plan.active() > 1                                     ? Arrangement::grid
                     : exact                                               ? Arrangement::causal
                     : plan.axes[2].positions / 2 <= 1 << most_log2_length ? Arrangement::row
                                                                           : Arrangement::split;
  if (exact) {
    plan.log2_points = std::max(log2_causal_block + 1, log2_at_least(plan.axes[2].extent));
    plan.log2_segment = std::min(plan.log2_points, most_log2_segment);
    plan.direct_segments = plan.log2_points > plan.log2_segment &&
                           !line::reject(line_problem(p, p.batch, p.channels, std::int64_t(1) << plan.log2_segment));
  } else if (plan.arrangement == Arrangement::split) {
    plan.axes[2] = make_axis(p.axes[plan.order[2]], true, false, false);
    plan.log2_points = length_of(plan.axes[2].positions / 2).log2;
    auto const [rows, columns] = split_lengths(plan.log2_points);
    plan.lengths[0] = {1, rows}, plan.lengths[1] = {1, columns};
  } else {
    if (plan.toeplitz) {
      auto const keep = [](TapAxis& axis) {
        axis.positions = axis.head = int(std::min<std::int64_t>(axis.extent, axis.filter));
        axis.tail = 0;
      };
      keep(plan.axes[plan.last()]);
      if (plan.toeplitz_pairs) keep(plan.axes[1]);
      plan.toeplitz_blocks = !plan.toeplitz_pairs && plan.axes[plan.last()].head > least_toeplitz_in_blocks;
    }
    for (int a = 0; a < 2; ++a)
      if (plan.axes[a].extent > 1 && !(plan.toeplitz && (a == plan.last() || plan.toeplitz_pairs)))
        plan.lengths[a] = length_of(plan.axes[a].positions);
    plan.lengths[2] = length_of(plan.axes[2].positions / 2);
  }

  bool const shared = p.sharing == FilterSharing::shared;
  plan.units = shared ? p.channels : p.batch * p.channels;
  plan.images = (shared ? p.batch : 1) * pieces.count();
  std::int64_t const row = plan.row_points();
  auto const& outermost = plan.axes[plan.last()];
  plan.filter_size = row * plan.axes[0].positions * plan.axes[1].positions;
  // The axis of the product keeps its points, the middle one is transformed as a whole.
  plan.image_size = plan.arrangement == Arrangement::row ? 0 : row * outermost.extent;
  if (plan.active() == 3) plan.image_size *= plan.middle_positions();
  if (exact) {
    // Between segments: half of an image at a time, and its sums, which are as large.
    plan.filter_size = std::int64_t(1) << plan.log2_segment;
    plan.image_size = plan.log2_points > plan.log2_segment ? row : 0;
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
  // Numbers of blocks and lines fit 31 bits.
  auto const at_most = [](std::int64_t lines) { return std::max<std::int64_t>(1, (std::int64_t(1) << 30) / lines); };
  plan.chunk_images = std::min(plan.chunk_images, at_most(1));
  plan.chunk_units = std::min({plan.chunk_units, at_most(std::max<std::int64_t>(1, plan.chunk_images)),
                               at_most(plan.axes[0].filter * plan.axes[1].filter)});
  plan.workspace = Buffers(plan, p.direction, nullptr).bytes;
  return plan;
}

char const* reject_plan(Plan const& plan) {
  if (plan.arrangement == Arrangement::grid &&
      std::max({plan.lengths[0].points(), plan.lengths[1].points(), plan.lengths[2].points()}) > 1 << most_log2_length)
    return "takes up to 4096 padded points an axis of a grid";
  if (plan.arrangement == Arrangement::causal)
    for (int a = 0; a < 2; ++a)
      if (auto const& axis = plan.axes[a];
          (axis.circular && axis.filter > 1) || !(axis.centre >= 0 && axis.centre < axis.filter))
        return "takes one tap along an axis of one point beside a causal one";
  std::size_t const budget = faltung::cuda::shared_memory_budget();
  if (plan.toeplitz_blocks && toeplitz_blocks_shared_bytes(plan.axes[plan.last()].extent, plan.precision) > budget)
    return "a column of a causal axis and its filter exceed the device's shared memory";
  if (plan.toeplitz_pairs && toeplitz_pairs_shared_bytes({.points = plan.axes[0].extent,
                                                          .taps = plan.axes[0].head,
                                                          .inner_points = plan.axes[1].extent,
                                                          .inner_taps = plan.axes[1].head},
                                                         plan.precision) > budget)
    return "a column of two causal axes and its filter exceed the device's shared memory";
  if (plan.toeplitz && !plan.toeplitz_pairs && !plan.toeplitz_blocks &&
      toeplitz_shared_bytes(plan.axes[plan.last()].extent, plan.axes[plan.last()].head, 1,
                            plan.precision == Precision::twice ? sizeof(double) : sizeof(float)) > budget)
    return "two columns of a causal axis and its filter exceed the device's shared memory";
  if (plan.log2_points > 2 * most_log2_length) return "takes up to 2^24 points";
  if (plan.axes[0].filter * plan.axes[1].filter >= std::int64_t(1) << 30)
    return "takes filters of fewer than 2^30 rows";
  if (plan.units >= std::int64_t(1) << 30 || plan.images >= std::int64_t(1) << 30)
    return "takes fewer than 2^30 filters and images";
  return nullptr;
}

Plan const& plan_of(Problem const& p, Pieces const& pieces) {
  struct Entry {
    Problem problem;
    Pieces pieces;
    Plan plan;
  };
  constexpr std::size_t kept = 32;  // forward and backward, and their parts
  thread_local std::vector<Entry> entries;
  thread_local std::size_t oldest = 0;
  entries.reserve(kept);
  for (auto const& entry : entries)
    if (entry.problem == p && entry.pieces == pieces) return entry.plan;
  if (entries.size() < kept) return entries.emplace_back(Entry{p, pieces, make_plan(p, pieces)}).plan;
  auto& entry = entries[oldest];
  oldest = (oldest + 1) % kept;
  entry = {p, pieces, make_plan(p, pieces)};
  return entry.plan;
}

Buffers::Buffers(Plan const& plan, Direction direction, void* base) {
  auto const take = [&](std::size_t size) -> void* {
    auto* const at = base ? static_cast<char*>(base) + bytes : nullptr;
    bytes += (size + 255) / 256 * 256;
    return at;
  };
  auto const table = [&](Length length, int radix, TableKind kind, Precision precision) {
    Table entry{nullptr, length, radix, kind, precision};
    entry.to = take(complex_bytes(precision) * table_entries(entry));
    tables.tables[tables.count++] = entry;
    return entry.to;
  };
  auto const make = [&](LengthTables& to, Length length, int radix, Precision precision, bool rotates) {
    to.twiddles = table(length, radix, TableKind::block_twiddles, precision);
    if (length.odd > 1) to.odd_twiddles = table(length, radix, TableKind::odd_twiddles, precision);
    if (rotates) to.rotation = table(length, radix, TableKind::rotation, precision);
  };
  auto const make_split = [&](int log2_points) {
    auto const lengths = split_lengths(log2_points);
    for (int const log2 : {lengths.first, lengths.second})
      if (!split[log2].twiddles) make(split[log2], {1, log2}, log2_radix(Length{1, log2}), plan.precision, true);
    split_twiddles[log2_points] = table({1, log2_points}, 0, TableKind::split_twiddles, plan.precision);
  };
  for (auto const precision : {Precision::single, Precision::twice}) {
    if (precision != plan.precision && precision != plan.filter_precision) continue;
    int const twice = precision == Precision::twice;
    if (plan.arrangement == Arrangement::causal) {
      for (int log2 = log2_causal_block; log2 < plan.log2_segment; ++log2)
        make(causal[twice][log2], {1, log2}, 3, precision, true);
    } else if (plan.arrangement != Arrangement::split) {
      for (int a = 0; a < 3; ++a)
        if (plan.lengths[a].log2)
          make(lengths[twice][a], plan.lengths[a], log2_radix(plan.lengths[a]), precision, a == 2 && !plan.cyclic());
      if (plan.cyclic()) {
        auto& rows = lengths[twice][2];
        int const radix = log2_radix(plan.lengths[2]);
        rows.rotation = table(plan.lengths[2], radix, TableKind::roots, precision);
        rows.frequencies = table(plan.lengths[2], radix, TableKind::frequencies, precision);
      }
    }
    if (plan.toeplitz_blocks && precision == plan.precision)
      make(toeplitz_blocks, {1, log2_toeplitz_slots}, 3, precision, false);
  }
  if (plan.arrangement == Arrangement::split) make_split(plan.log2_points);
  if (plan.arrangement == Arrangement::causal)
    for (int log2 = plan.log2_segment; log2 < plan.log2_points; ++log2) make_split(log2);
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
