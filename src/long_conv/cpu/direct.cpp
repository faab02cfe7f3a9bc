// Drives the kernels of cpu.direct: cuts a product into blocks of planes and tiles, stages each in scratch, correlates,
// stores with the one rounding. Tasks are blocks of planes; sums over the batch run in a fixed order of fixed chunks.
#include "long_conv/cpu/direct.hpp"

#include <algorithm>
#include <vector>

#include "core/dispatch.hpp"
#include "core/error.hpp"
#include "long_conv/cpu/direct_worker.hpp"
#include "long_conv/cpu/policy.hpp"
#include "long_conv/cpu/transformed.hpp"

namespace faltung::long_conv::cpu::direct {
namespace {

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
  // Where planes are few, tiles of the same plane take the lanes that are left, and tasks are parts of the tiles.
  bool const one_tile_of_taps = tile_count(c.taps, c.tap_tile) == 1;
  Index const parts = count < num_threads() ? 4 * num_threads() : 1;
  parallel_for(parallel, count * parts, [&](Index begin, Index end) {
    Worker<Real> worker(c);
    Index staged = -1, staged_planes = 0, groups_for = 0;
    std::vector<std::vector<Tile>> groups;
    for (Index task = begin; task < end; ++task) {
      Index const number = task / parts, part = task % parts;
      Index const channel_block = number < whole ? number / p.batch : last;
      Index const sample_block = number < whole ? number % p.batch : number - whole;
      auto const block = make_block(blocks, channel_block, 0, sample_block, p.batch);
      Index const most = one_tile_of_taps ? blocks.lanes / block.planes() : 1;
      if (groups_for != most) groups = tiles_alike(c, most);
      groups_for = most;
      Index const taps_of = o.w_is_shared ? channel_block : number;
      for (Index g = part; g < Index(groups.size()); g += parts) {
        auto const& tiles = groups[g];
        BlockTensor const in(o.in, o.in_dtype, block, &tiles), w(o.w, o.w_dtype, block, &tiles, false),
            out(o.out, o.out_dtype, block, &tiles);
        // Taps staged for fewer planes lack lanes.
        if (staged != taps_of || staged_planes < in.planes.planes) worker.forget_taps();
        staged = taps_of;
        staged_planes = in.planes.planes;
        Real factors[most_lanes] = {};
        if (o.shortcut.data)
          for (int l = 0; l < in.planes.planes; ++l)
            factors[l] = Real(load_scalar(o.shortcut, p.shortcut_dtype, block.channel + l % block.width));
        Tile const& tile = tiles.front();
        worker.run(in, w, tile);
        auto const extents = tile.extents();
        store_planes(interleaved(worker.out(), extents), extents.data(), out.at(tile.begin),
                     o.shortcut.data ? PlaneShortcut<Real>{factors, in.at(tile.begin)} : PlaneShortcut<Real>{});
      }
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
void run_input_gradient(Problem const& p, BackwardArgs const& a) {
  correlate_planes<Real>(
      p, a.runtime.parallel, make_correlation(p, Product::input_gradient),
      {a.dy, a.k, a.dx, p.x_dtype, p.k_dtype, p.x_dtype, p.sharing == FilterSharing::shared, a.shortcut});
}

template <typename Real>
void run_filter_gradient(Problem const& p, BackwardArgs const& a) {
  Operands const operands{a.x, a.dy, reversed(a.dk, p.k_dtype, p), p.x_dtype, p.x_dtype, p.k_dtype, false, {}};
  auto const c = make_correlation(p, Product::filter_gradient);
  if (p.sharing == FilterSharing::shared)
    correlate_batch<Real>(p, a.runtime.parallel, c, operands);
  else
    correlate_planes<Real>(p, a.runtime.parallel, c, operands);
}

// Sums that go round a circular axis may cancel nearly all (a filter of small mean on inputs of large mean), and fp32
// has no digits to spare for that; the double kernels take twice as long. (The bounds of 16-bit results have room.)
bool in_double(Problem const& p) {
  return p.x_dtype == FALTUNG_F64 ||
         (p.x_dtype == FALTUNG_F32 &&
          std::any_of(p.axes.begin(), p.axes.end(), [](Axis const& a) { return a.boundary == Boundary::circular; }));
}

// The gradient of a filter of few taps is a few long sums, without many results for their errors to average out over.
bool has_few_taps(Problem const& p) {
  constexpr Index few = 32;
  return p.axes[0].filter <= few && p.axes[1].filter <= few &&
         p.axes[0].filter * p.axes[1].filter * p.axes[2].filter <= few;
}

bool filter_gradient_in_double(Problem const& p) {
  return in_double(p) || (p.x_dtype == FALTUNG_F32 && has_few_taps(p));
}

}  // namespace

char const* prefer_transformed(Problem const& p) {
  if (transformed::reject(p)) return nullptr;
  // The few long sums of a small filter's gradient need the doubles that only this side has.
  if (p.direction == Direction::backward && p.x_dtype == FALTUNG_F32 && has_few_taps(p)) return nullptr;
  bool const faster = direct_time(p, in_double(p)) <= transform_time(p, p.x_dtype == FALTUNG_F64);
  return faster ? nullptr : "transforms are faster here";
}

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
  if (a.dx.data) in_double(p) ? run_input_gradient<double>(p, a) : run_input_gradient<float>(p, a);
  if (a.dk.data) filter_gradient_in_double(p) ? run_filter_gradient<double>(p, a) : run_filter_gradient<float>(p, a);
  if (a.dshortcut.data) p.x_dtype == FALTUNG_F64 ? shortcut_gradient<double>(p, a) : shortcut_gradient<float>(p, a);
}

}  // namespace faltung::long_conv::cpu::direct
