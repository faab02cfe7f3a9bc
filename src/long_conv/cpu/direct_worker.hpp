// What one thread of cpu.direct works with: blocks of planes seen as tensors, tiles staged in scratch, and the
// correlation of one block, tile by tile.
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/scratch.hpp"
#include "long_conv/cpu/direct_kernels.hpp"
#include "long_conv/cpu/direct_plan.hpp"
#include "long_conv/cpu/planes.hpp"

namespace faltung::long_conv::cpu::direct {

template <typename Real>
Index lanes() {
  return std::is_same_v<Real, float> ? plane_functions().float_lanes : plane_functions().double_lanes;
}
template <typename Real>
void correlate(CorrelationTile<Real> const& tile) {
  if constexpr (std::is_same_v<Real, float>)
    direct_functions().correlate_float(tile);
  else
    direct_functions().correlate_double(tile);
}
template <typename Real>
void add(double* total, Real const* part, Index count) {
  if constexpr (std::is_same_v<Real, float>)
    direct_functions().add_float(total, part, count);
  else
    direct_functions().add_double(total, part, count);
}
template <typename Real>
void dot(double* total, Real const* a, Real const* b, Index points) {
  if constexpr (std::is_same_v<Real, float>)
    direct_functions().dot_float(total, a, b, points);
  else
    direct_functions().dot_double(total, a, b, points);
}

// Channels go to lanes in blocks of at most `lanes`; where a block leaves lanes free they take further samples of the
// same channels, so that one staged filter serves every block of the same channels.
struct Blocks {
  Index lanes, batch, channels;
  Index channel_blocks() const { return (channels + lanes - 1) / lanes; }
  Index width(Index block) const { return std::min(lanes, channels - block * lanes); }
  Index samples(Index block) const { return lanes / width(block); }
  Index sample_blocks(Index block, Index batch_count) const {
    return (batch_count + samples(block) - 1) / samples(block);
  }
};

struct Block {
  Index channel, width, sample, samples;
  int planes() const { return int(width * samples); }
};

inline Block make_block(Blocks const& blocks, Index channel_block, Index first_sample, Index sample_block,
                        Index end_sample) {
  Index const sample = first_sample + sample_block * blocks.samples(channel_block);
  return {channel_block * blocks.lanes, blocks.width(channel_block), sample,
          std::min(blocks.samples(channel_block), end_sample - sample)};
}

struct Tile {
  Extents begin, end;
  Extents extents() const { return {end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]}; }
};

template <typename Body>
void for_each_tile(Extents const& begin, Extents const& extents, Extents const& tile, Body&& body) {
  Extents i;
  for (i[0] = 0; i[0] < extents[0]; i[0] += tile[0])
    for (i[1] = 0; i[1] < extents[1]; i[1] += tile[1])
      for (i[2] = 0; i[2] < extents[2]; i[2] += tile[2]) {
        Tile t;
        for (int axis = 0; axis < 3; ++axis) {
          t.begin[axis] = begin[axis] + i[axis];
          t.end[axis] = begin[axis] + std::min(i[axis] + tile[axis], extents[axis]);
        }
        body(t);
      }
}

// Tiles of outputs in groups of at most `most` that see their input alike: one geometry serves a group, each tile in
// lanes of its own. On a circular axis no two tiles do: their turns come at other places.
inline std::vector<std::vector<Tile>> tiles_alike(Correlation const& c, Index most) {
  struct Group {
    Extents extents;
    BoxAxis box[3];
    std::vector<Tile> tiles;
  };
  std::vector<std::vector<Tile>> result;
  if (most == 1 || std::any_of(c.axes.begin(), c.axes.end(), [](CorrelationAxis const& axis) { return axis.wraps; })) {
    for_each_tile({}, c.outputs, c.output_tile, [&](Tile const& tile) { result.push_back({tile}); });
    return result;
  }
  std::vector<Group> open;  // one of a geometry, and there are few geometries
  auto const same = [](Segment const& a, Segment const& b) { return a.begin == b.begin && a.end == b.end; };
  for_each_tile({}, c.outputs, c.output_tile, [&](Tile const& tile) {
    Group seen{tile.extents(), {}, {tile}};
    for (int i = 0; i < 3; ++i) {
      Index const first = c.axes[i].taps_begin;
      seen.box[i] = make_box(c.axes[i], {tile.begin[i], tile.end[i]}, {first, first + c.taps[i]},
                             direct_functions().halo(seen.extents.data(), i));
    }
    for (auto& group : open) {
      bool alike = group.extents == seen.extents;
      for (int i = 0; alike && i < 3; ++i)
        alike = same(group.box[i].real, seen.box[i].real) && same(group.box[i].box, seen.box[i].box);
      if (!alike) continue;
      group.tiles.push_back(tile);
      if (Index(group.tiles.size()) < most) return;
      result.push_back(std::move(group.tiles));
      group = std::move(open.back());
      open.pop_back();
      return;
    }
    open.push_back(std::move(seen));
  });
  for (auto& group : open) result.push_back(std::move(group.tiles));
  return result;
}

// A tensor seen through the planes of a block, once for each of `tiles`, of which the first is where it is read or
// written: the others lie as far from there as they begin later.
struct BlockTensor {
  Index offsets[most_lanes];
  PlaneTensor planes;

  BlockTensor(ConstView const& view, Dtype dtype, Block const& block, std::vector<Tile> const* tiles = nullptr,
              bool at_tiles = true)
      : planes{const_cast<void*>(view.data),
               dtype,
               int(block.planes() * (tiles ? tiles->size() : 1)),
               offsets,
               {view.strides.spatial[0], view.strides.spatial[1], view.strides.spatial[2]}} {
    for (int l = 0; l < planes.planes; ++l) {
      int const plane = l % block.planes();
      offsets[l] = (block.sample + plane / block.width) * view.strides.batch +
                   (block.channel + plane % block.width) * view.strides.channel;
      if (tiles && at_tiles)
        for (int i = 0; i < 3; ++i)
          offsets[l] += ((*tiles)[l / block.planes()].begin[i] - tiles->front().begin[i]) * view.strides.spatial[i];
    }
  }
  BlockTensor(BlockTensor const&) = delete;

  PlaneTensor at(Extents const& i) const {
    PlaneTensor result = planes;
    Index offset = 0;
    for (int axis = 0; axis < 3; ++axis) offset += i[axis] * planes.strides[axis];
    result.data = static_cast<char*>(planes.data) + offset * size_of(planes.dtype);
    return result;
  }
};

inline ConstView reversed(ConstView view, Dtype dtype, Problem const& p) {
  Index offset = 0;
  for (int i = 0; i < 3; ++i) {
    offset += (p.axes[i].filter - 1) * view.strides.spatial[i];
    view.strides.spatial[i] = -view.strides.spatial[i];
  }
  view.data = static_cast<char const*>(view.data) + offset * size_of(dtype);
  return view;
}

inline View reversed(View const& view, Dtype dtype, Problem const& p) {
  auto const r = reversed(ConstView(view), dtype, p);
  return {const_cast<void*>(r.data), r.strides};
}

inline Index tile_count(Extents const& extents, Extents const& tile) {
  Index count = 1;
  for (int i = 0; i < 3; ++i) count *= tile[i] ? (extents[i] + tile[i] - 1) / tile[i] : 0;
  return count;
}

template <typename Real>
PlaneScratch<Real> interleaved(Real* data, Extents const& extents) {
  Index const n = lanes<Real>();
  return {data, 1, {extents[1] * extents[2] * n, extents[2] * n, n}};
}

// What one thread needs to correlate blocks of planes, tile by tile.
template <typename Real>
class Worker {
 public:
  explicit Worker(Correlation const& c)
      : c_(c),
        n_(lanes<Real>()),
        tap_tiles_(tile_count(c.taps, c.tap_tile)),
        in_double_(tile_count(c.taps, c.tap_part) > 1),
        scratch_(bytes(c)),
        x_(scratch_.take<Real>(largest_box(c, halo(c)) * n_)),
        w_(scratch_.take<Real>(volume(c.tap_tile) * n_)),
        out_(scratch_.take<Real>(volume(c.output_tile) * n_)),
        total_(scratch_.take<double>(volume(c.output_tile) * n_)) {}

  void forget_taps() { taps_are_staged_ = false; }

  Real* out() { return out_; }

  // One tile of outputs, all taps: in out(). Several tiles of taps are summed in double.
  void run(BlockTensor const& x, BlockTensor const& w, Tile const& outputs) {
    sum(x, w, outputs);
    if (!in_double_) return;
    Index const count = volume(outputs.extents()) * n_;
    for (Index i = 0; i < count; ++i) out_[i] = Real(total_[i]);
  }

  // The same, added to part[point][lane of channel], sample by sample whatever lanes the samples came in.
  void run_batch(BlockTensor const& x, BlockTensor const& w, Tile const& outputs, Block const& block, double* part) {
    sum(x, w, outputs);
    Index const points = volume(outputs.extents());
    if (in_double_)
      add_samples(part, total_, points, block);
    else
      add_samples(part, out_, points, block);
  }

 private:
  template <typename Sum>
  void add_samples(double* part, Sum const* sums, Index points, Block const& block) {
    if (block.width == n_) return add(part, sums, points * n_);
    for (Index i = 0; i < points; ++i, part += n_, sums += n_)
      for (Index s = 0; s < block.samples; ++s)
        for (Index c = 0; c < block.width; ++c) part[c] += double(sums[s * block.width + c]);
  }

  void sum(BlockTensor const& x, BlockTensor const& w, Tile const& outputs) {
    auto const output_extents = outputs.extents();
    Index const count = volume(output_extents) * n_;
    if (in_double_) std::fill_n(total_, count, 0.0);
    bool any = false;
    Extents const first = {c_.axes[0].taps_begin, c_.axes[1].taps_begin, c_.axes[2].taps_begin};
    for_each_tile(first, c_.taps, c_.tap_tile, [&](Tile const& taps) {
      auto const tap_extents = taps.extents();
      if (!taps_are_staged_ || tap_tiles_ > 1)
        load_planes(w.at(taps.begin), tap_extents.data(), interleaved(w_, tap_extents));
      taps_are_staged_ = true;
      CorrelationTile<Real> tile{.x = x_, .w = w_, .out = out_};
      std::copy_n(tap_extents.data(), 3, tile.taps);
      std::copy_n(output_extents.data(), 3, tile.outputs);
      if (!stage_input(x, outputs, taps, tile)) return;
      any = true;
      for_each_tile({}, tap_extents, c_.tap_part, [&](Tile const& part) {
        std::copy_n(part.begin.data(), 3, tile.taps_begin);
        std::copy_n(part.end.data(), 3, tile.taps_end);
        correlate(tile);
        if (in_double_) add(total_, out_, count);
      });
    });
    if (!any) std::memset(out_, 0, count * sizeof(Real));
  }

  static Extents halo(Correlation const& c) {
    // Tiles at the end of an axis may be smaller and so use other blocks: the largest halo of any size.
    Extents result{};
    for (int axis = 1; axis < 3; ++axis)
      for (Index rows = 1; rows <= c.output_tile[1]; ++rows) {
        Extents const outputs = {1, rows, c.output_tile[2]};
        result[axis] = std::max(result[axis], direct_functions().halo(outputs.data(), axis));
        if (rows > 16) break;
      }
    return result;
  }

  static std::size_t bytes(Correlation const& c) {
    Index const n = lanes<Real>();
    return Scratch::padded<Real>(largest_box(c, halo(c)) * n) + Scratch::padded<Real>(volume(c.tap_tile) * n) +
           Scratch::padded<Real>(volume(c.output_tile) * n) + Scratch::padded<double>(volume(c.output_tile) * n);
  }

  bool stage_input(BlockTensor const& x, Tile const& outputs, Tile const& taps, CorrelationTile<Real>& tile) {
    BoxAxis box[3];
    Extents extents;
    bool padded = false;
    for (int i = 0; i < 3; ++i) {
      box[i] = make_box(c_.axes[i], {outputs.begin[i], outputs.end[i]}, {taps.begin[i], taps.end[i]},
                        direct_functions().halo(tile.outputs, i));
      if (box[i].real.begin >= box[i].real.end) return false;
      tile.box_begin[i] = box[i].box.begin;
      tile.box_extents[i] = extents[i] = box[i].box.end - box[i].box.begin;
      tile.real_begin[i] = box[i].real.begin;
      tile.real_end[i] = box[i].real.end;
      padded = padded || extents[i] != box[i].real.end - box[i].real.begin;
    }
    // Real points are all written again each time; the zeros around them stay as long as the box does.
    bool const same_box = std::equal(box, box + 3, staged_, [](BoxAxis const& a, BoxAxis const& b) {
      return a.real.begin == b.real.begin && a.real.end == b.real.end && a.box.begin == b.box.begin &&
             a.box.end == b.box.end;
    });
    if (padded && !same_box) std::memset(x_, 0, volume(extents) * n_ * sizeof(Real));
    std::copy_n(box, 3, staged_);
    auto const whole = interleaved(x_, extents);
    // Runs of real points whose sources follow each other; a circular axis starts a new one at each turn.
    auto const for_each_run = [&](int axis, auto&& body) {
      for (Index at = box[axis].real.begin; at < box[axis].real.end;) {
        Index source = box[axis].source + at, length = box[axis].real.end - at;
        if (c_.axes[axis].wraps) {
          source %= c_.axes[axis].extent;
          length = std::min(length, c_.axes[axis].extent - source);
        }
        body(at - box[axis].box.begin, source, length);
        at += length;
      }
    };
    for_each_run(0, [&](Index at0, Index source0, Index length0) {
      for_each_run(1, [&](Index at1, Index source1, Index length1) {
        for_each_run(2, [&](Index at2, Index source2, Index length2) {
          auto part = whole;
          part.data += at0 * part.pitches[0] + at1 * part.pitches[1] + at2 * part.pitches[2];
          Extents const length = {length0, length1, length2};
          load_planes(x.at({source0, source1, source2}), length.data(), part);
        });
      });
    });
    return true;
  }

  Correlation const& c_;
  Index n_, tap_tiles_;
  bool in_double_;  // parts of the taps are added up in total_
  Scratch scratch_;
  Real *x_, *w_, *out_;
  double* total_;
  bool taps_are_staged_ = false;
  BoxAxis staged_[3] = {};
};

}  // namespace faltung::long_conv::cpu::direct
