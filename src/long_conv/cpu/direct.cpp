// Drives the kernels of cpu.direct: cuts a product into blocks of planes and tiles, stages each in scratch, correlates,
// stores with the one rounding. Tasks are blocks of planes; sums over the batch run in a fixed order of fixed chunks.
#include "long_conv/cpu/direct.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/dispatch.hpp"
#include "core/error.hpp"
#include "core/scratch.hpp"
#include "long_conv/cpu/direct_kernels.hpp"
#include "long_conv/cpu/direct_plan.hpp"
#include "long_conv/cpu/planes.hpp"

namespace faltung::long_conv::cpu::direct {
namespace {

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

Block make_block(Blocks const& blocks, Index channel_block, Index first_sample, Index sample_block, Index end_sample) {
  Index const sample = first_sample + sample_block * blocks.samples(channel_block);
  return {channel_block * blocks.lanes, blocks.width(channel_block), sample,
          std::min(blocks.samples(channel_block), end_sample - sample)};
}

// A tensor seen through the planes of a block.
struct BlockTensor {
  Index offsets[most_lanes];
  PlaneTensor planes;

  BlockTensor(ConstView const& view, Dtype dtype, Block const& block)
      : planes{const_cast<void*>(view.data),
               dtype,
               block.planes(),
               offsets,
               {view.strides.spatial[0], view.strides.spatial[1], view.strides.spatial[2]}} {
    for (int l = 0; l < block.planes(); ++l)
      offsets[l] = (block.sample + l / block.width) * view.strides.batch +
                   (block.channel + l % block.width) * view.strides.channel;
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

ConstView reversed(ConstView view, Dtype dtype, Problem const& p) {
  Index offset = 0;
  for (int i = 0; i < 3; ++i) {
    offset += (p.axes[i].filter - 1) * view.strides.spatial[i];
    view.strides.spatial[i] = -view.strides.spatial[i];
  }
  view.data = static_cast<char const*>(view.data) + offset * size_of(dtype);
  return view;
}

View reversed(View const& view, Dtype dtype, Problem const& p) {
  auto const r = reversed(ConstView(view), dtype, p);
  return {const_cast<void*>(r.data), r.strides};
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

Index tile_count(Extents const& extents, Extents const& tile) {
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

double load_scalar(ConstVector const& v, Dtype dtype, Index c) {
  return visit_dtype(dtype, [&]<typename T> { return double(to_float(static_cast<T const*>(v.data)[c * v.stride])); });
}

struct Operands {
  ConstView in, w;
  View out;
  Dtype in_dtype, w_dtype, out_dtype;
  bool w_is_shared;
  ConstVector shortcut;  // of `in`
};

// Every plane of the output by itself: y, dx, and dk of a filter per sample.
template <typename Real>
void correlate_planes(Problem const& p, Parallel const& parallel, Correlation const& c, Operands const& o) {
  Blocks const blocks{lanes<Real>(), p.batch, p.channels};
  // The last block of channels may be narrower and so take more samples at once.
  Index const last = blocks.channel_blocks() - 1, whole = last * p.batch;
  Index const count = whole + blocks.sample_blocks(last, p.batch);
  parallel_for(parallel, count, [&](Index begin, Index end) {
    Worker<Real> worker(c);
    Index staged = -1;
    for (Index task = begin; task < end; ++task) {
      Index const channel_block = task < whole ? task / p.batch : last;
      Index const sample_block = task < whole ? task % p.batch : task - whole;
      auto const block = make_block(blocks, channel_block, 0, sample_block, p.batch);
      BlockTensor const in(o.in, o.in_dtype, block), w(o.w, o.w_dtype, block), out(o.out, o.out_dtype, block);
      // Taps staged for a block of fewer samples lack lanes; a later block never has more samples than the one before
      // it.
      if (!o.w_is_shared || staged != channel_block) worker.forget_taps();
      staged = channel_block;
      Real factors[most_lanes] = {};
      if (o.shortcut.data)
        for (int l = 0; l < block.planes(); ++l)
          factors[l] = Real(load_scalar(o.shortcut, p.shortcut_dtype, block.channel + l % block.width));
      for_each_tile({}, c.outputs, c.output_tile, [&](Tile const& tile) {
        worker.run(in, w, tile);
        auto const extents = tile.extents();
        store_planes(interleaved(worker.out(), extents), extents.data(), out.at(tile.begin),
                     o.shortcut.data ? PlaneShortcut<Real>{factors, in.at(tile.begin)} : PlaneShortcut<Real>{});
      });
    }
  });
}

// Sums over the batch go chunk by chunk, samples in order within each; the number of chunks depends on the batch alone.
struct Chunks {
  Index batch;
  Index size() const { return std::max<Index>(16, (batch + 7) / 8); }
  Index count() const { return (batch + size() - 1) / size(); }
  Segment at(Index i) const { return {i * size(), std::min(batch, (i + 1) * size())}; }
};

// parts[chunk][...] -> parts[0][...], in order.
void combine(double* parts, Index chunks, Index count) {
  for (Index i = 1; i < chunks; ++i)
    for (Index t = 0; t < count; ++t) parts[t] += parts[i * count + t];
}

// dk of a shared filter. A task is one block of channels x one tile of taps x one chunk of the batch, or all chunks
// where there are tasks enough without.
template <typename Real>
void correlate_batch(Problem const& p, Parallel const& parallel, Correlation const& c, Operands const& o) {
  Index const n = lanes<Real>();
  Blocks const blocks{n, p.batch, p.channels};
  Chunks const chunks{p.batch};
  std::vector<Tile> tiles;
  for_each_tile({}, c.outputs, c.output_tile, [&](Tile const& tile) { tiles.push_back(tile); });
  Index const largest = volume(c.output_tile) * n, jobs = blocks.channel_blocks() * Index(tiles.size());
  bool const split = chunks.count() > 1 && jobs < 16;
  std::vector<double> all_parts(split ? jobs * chunks.count() * largest : 0);

  auto const sum_chunk = [&](Worker<Real>& worker, Index channel_block, Tile const& tile, Segment samples,
                             double* part) {
    Index const points = volume(tile.extents());
    std::fill_n(part, points * n, 0.0);
    for (Index i = 0; i < blocks.sample_blocks(channel_block, samples.end - samples.begin); ++i) {
      auto const block = make_block(blocks, channel_block, samples.begin, i, samples.end);
      BlockTensor const in(o.in, o.in_dtype, block), w(o.w, o.w_dtype, block);
      worker.forget_taps();
      worker.run_batch(in, w, tile, block, part);
    }
  };
  auto const store = [&](Index channel_block, Tile const& tile, double const* sums, Real* rounded) {
    auto const extents = tile.extents();
    for (Index i = 0; i < volume(extents) * n; ++i) rounded[i] = Real(sums[i]);
    Block const block{channel_block * n, blocks.width(channel_block), 0, 1};
    BlockTensor const out(o.out, o.out_dtype, block);
    store_planes(interleaved(rounded, extents), extents.data(), out.at(tile.begin));
  };

  parallel_for(parallel, split ? jobs * chunks.count() : jobs, [&](Index begin, Index end) {
    Worker<Real> worker(c);
    std::vector<double> own(split ? 0 : 2 * largest);
    for (Index task = begin; task < end; ++task) {
      Index const job = split ? task / chunks.count() : task, channel_block = job / Index(tiles.size());
      Tile const& tile = tiles[job % tiles.size()];
      if (split) {
        sum_chunk(worker, channel_block, tile, chunks.at(task % chunks.count()), all_parts.data() + task * largest);
        continue;
      }
      Index const count = volume(tile.extents()) * n;
      sum_chunk(worker, channel_block, tile, chunks.at(0), own.data());
      for (Index i = 1; i < chunks.count(); ++i) {
        sum_chunk(worker, channel_block, tile, chunks.at(i), own.data() + largest);
        for (Index t = 0; t < count; ++t) own[t] += own[largest + t];
      }
      store(channel_block, tile, own.data(), worker.out());
    }
  });
  if (!split) return;
  parallel_for(parallel, jobs, [&](Index begin, Index end) {
    std::vector<Real> rounded(largest);
    for (Index job = begin; job < end; ++job) {
      double* const parts = all_parts.data() + job * chunks.count() * largest;
      combine(parts, chunks.count(), largest);
      store(job / Index(tiles.size()), tiles[job % tiles.size()], parts, rounded.data());
    }
  });
}

template <typename Real>
void shortcut_gradient(Problem const& p, BackwardArgs const& a) {
  Index const n = lanes<Real>();
  Blocks const blocks{n, p.batch, p.channels};
  Chunks const chunks{p.batch};
  Correlation const c = make_correlation(p, Product::forward);
  std::vector<double> parts(chunks.count() * p.channels, 0.0);
  parallel_for(a.runtime.parallel, blocks.channel_blocks() * chunks.count(), [&](Index begin, Index end) {
    Index const points = volume(c.output_tile);
    Scratch scratch(2 * Scratch::padded<Real>(points * n));
    Real *const x = scratch.take<Real>(points * n), *const dy = scratch.take<Real>(points * n);
    for (Index task = begin; task < end; ++task) {
      Index const channel_block = task / chunks.count(), chunk = task % chunks.count();
      auto const samples = chunks.at(chunk);
      for (Index i = 0; i < blocks.sample_blocks(channel_block, samples.end - samples.begin); ++i) {
        auto const block = make_block(blocks, channel_block, samples.begin, i, samples.end);
        BlockTensor const x_block(a.x, p.x_dtype, block), dy_block(a.dy, p.x_dtype, block);
        double sums[most_lanes] = {};
        for_each_tile({}, c.outputs, c.output_tile, [&](Tile const& tile) {
          auto const extents = tile.extents();
          load_planes(x_block.at(tile.begin), extents.data(), interleaved(x, extents));
          load_planes(dy_block.at(tile.begin), extents.data(), interleaved(dy, extents));
          dot(sums, x, dy, volume(extents));
        });
        for (int l = 0; l < block.planes(); ++l) parts[chunk * p.channels + block.channel + l % block.width] += sums[l];
      }
    }
  });
  combine(parts.data(), chunks.count(), p.channels);
  visit_dtype(p.shortcut_dtype, [&]<typename T> {
    for (Index ch = 0; ch < p.channels; ++ch)
      static_cast<T*>(a.dshortcut.data)[ch * a.dshortcut.stride] = round_to<T>(parts[ch]);
  });
}

template <typename Real>
void run_forward(Problem const& p, ForwardArgs const& a) {
  bool const shared = p.sharing == FilterSharing::shared;
  correlate_planes<Real>(p, a.runtime.parallel, make_correlation(p, Product::forward),
                         {a.x, reversed(a.k, p.k_dtype, p), a.y, p.x_dtype, p.k_dtype, p.x_dtype, shared, a.shortcut});
}

template <typename Real>
void run_backward(Problem const& p, BackwardArgs const& a) {
  bool const shared = p.sharing == FilterSharing::shared;
  if (a.dx.data)
    correlate_planes<Real>(p, a.runtime.parallel, make_correlation(p, Product::input_gradient),
                           {a.dy, a.k, a.dx, p.x_dtype, p.k_dtype, p.x_dtype, shared, a.shortcut});
  if (a.dk.data) {
    Operands const operands{a.x, a.dy, reversed(a.dk, p.k_dtype, p), p.x_dtype, p.x_dtype, p.k_dtype, false, {}};
    auto const c = make_correlation(p, Product::filter_gradient);
    if (shared)
      correlate_batch<Real>(p, a.runtime.parallel, c, operands);
    else
      correlate_planes<Real>(p, a.runtime.parallel, c, operands);
  }
  if (a.dshortcut.data) shortcut_gradient<Real>(p, a);
}

}  // namespace

// Sums that go round a circular axis may cancel nearly all (a filter of small mean on inputs of large mean), and fp32
// has no digits to spare for that; the double kernels take twice as long.
bool in_double(Problem const& p) {
  return p.x_dtype == FALTUNG_F64 ||
         std::any_of(p.axes.begin(), p.axes.end(), [](Axis const& a) { return a.boundary == Boundary::circular; });
}

char const* reject(Problem const&) { return nullptr; }

std::string policy(Problem const& p) {
  auto const c = make_correlation(p, p.direction == Direction::forward ? Product::forward : Product::input_gradient);
  auto const text = [](Extents const& e) { return concatenate(e[0], "x", e[1], "x", e[2]); };
  return concatenate(in_double(p) ? lanes<double>() : lanes<float>(), " planes at a time, tiles of ",
                     text(c.output_tile), " outputs and ", text(c.tap_tile), " taps");
}

void forward(Problem const& p, ForwardArgs const& a) {
  return in_double(p) ? run_forward<double>(p, a) : run_forward<float>(p, a);
}

void backward(Problem const& p, BackwardArgs const& a) {
  return in_double(p) ? run_backward<double>(p, a) : run_backward<float>(p, a);
}

}  // namespace faltung::long_conv::cpu::direct
