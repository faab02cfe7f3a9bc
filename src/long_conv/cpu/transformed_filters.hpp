// Filters of cpu.transformed: taps of any dtype and layout -> planes by position -> spectra, and the way back for their
// gradients.
#pragma once
#include <algorithm>

#include "core/scratch.hpp"
#include "long_conv/cpu/transformed_staging.hpp"

namespace faltung::long_conv::cpu::transformed {

template <typename Real>
class Filters : public Staging<Real> {
  using Staging<Real>::p_, Staging<Real>::plan_, Staging<Real>::kernels_, Staging<Real>::tensor, Staging<Real>::at,
      Staging<Real>::steps;

 public:
  using typename Staging<Real>::Plan;
  using Staging<Real>::transposes, Staging<Real>::transpose_in, Staging<Real>::transpose_out;

  // `capacity` channels at a time; takes bytes(...) of the scratch.
  Filters(Problem const& problem, Plan const& plan, int capacity, Scratch& scratch) : Staging<Real>(problem, plan) {
    filters_ = scratch.take<Real>(plan.filter_plane * capacity);
    spectra_ = scratch.take<Real>(plan.spectrum * capacity);
    taps_ = scratch.take<Real>(count_of(filter_extents(problem)) * capacity);
    folded_ = plan.folds ? scratch.take<Real>(count_of(plan.folded) * capacity) : nullptr;
    capacity_ = capacity;
  }

  static std::size_t bytes(Problem const& p, Plan const& plan, int capacity) {
    auto const room = [&](std::size_t count) { return Scratch::padded<Real>(count * capacity); };
    return room(plan.filter_plane) + room(plan.spectrum) + room(count_of(filter_extents(p))) +
           (plan.folds ? room(count_of(plan.folded)) : 0);
  }

  // Makes the spectra of filters. half, group, work: memory of the kernels.
  void load(PlaneTensor const& taps, Real* half, Real* group, Real* work) {
    // The pieces of one plan always cover the same positions: zeros around them stay until a gradient takes their
    // place.
    if (!padded_) std::fill_n(filters_, plan_.filter_plane * capacity_, Real(0));
    padded_ = true;
    PlaneTensor const source = folded(taps);
    // Taps along the rows of the plane are neighbours, unless a later axis of one point has several taps.
    if (transposes() && rows_are_neighbours()) {
      Extents const extents = plan_.folded;
      Real* const ordered = plan_.folds ? folded_ : taps_;
      if (!plan_.folds) load_planes(source, extents.data(), contiguous(ordered, extents));
      for (int c = 0; c < taps.planes; ++c)
        for (auto const& piece : plan_.filter)
          transpose_in(piece, ordered + c * count_of(extents), extents, filters_ + c * plan_.filter_plane,
                       plan_.geometry.filter);
    } else {
      for (auto const& piece : plan_.filter) load_planes(at(source, piece), piece.extents.data(), in_filter(piece));
    }
    for (int c = 0; c < taps.planes; ++c)
      kernels_.filter_spectrum(plan_.geometry, filters_ + c * plan_.filter_plane, spectrum(c), half, group, work);
  }

  // The filters of sample b as they are, and in fp32, whose conversion to fp64 is a vector instruction.
  PlaneTensor taps_of(ConstView const& k, std::int64_t b, Channels channels) {
    return tensor(k, p_.k_dtype, b, channels);
  }
  PlaneTensor ordered_taps_of(ConstView const& k, std::int64_t b, Channels channels) {
    Extents const extents = filter_extents(p_);
    load_planes(tensor(k, p_.k_dtype, b, channels), extents.data(), contiguous(taps_, extents));
    for (int c = 0; c < channels.count; ++c) ordered_offsets_[c] = std::int64_t(c * count_of(extents));
    return {taps_,
            sizeof(Real) == 4 ? FALTUNG_F32 : FALTUNG_F64,
            channels.count,
            ordered_offsets_,
            {extents[1] * extents[2], extents[2], 1}};
  }

  Real* spectrum(int channel) const { return spectra_ + channel * plan_.spectrum; }

  // The taps that stay within a block of a causal axis, [channels][distances of middle][rows], after load().
  void load_within_blocks(ConstView const& k, std::int64_t b, Channels channels, Real* within, std::size_t room) {
    auto const& e = plan_.within_block.extents;
    std::fill_n(within, room * channels.count, Real(0));
    // What are rows of the plane run along the innermost axis of this scratch.
    PlaneTensor from = at(folded(tensor(k, p_.k_dtype, b, channels)), plan_.within_block);
    std::swap(from.strides[0], from.strides[2]);
    std::int64_t const extents[3] = {1, e[1], e[0]};
    load_planes(from, extents, PlaneScratch<Real>{within, std::int64_t(room), {0, plan_.geometry.image.rows, 1}});
  }

  // dk of channels of sample b, from the spectra of the gradients, one after another.
  void store_gradients(Real const* gradients, View const& dk, std::int64_t b, Channels channels, Real* half,
                       Real* group, Real* work) {
    for (int c = 0; c < channels.count; ++c)
      kernels_.filter_gradient(plan_.geometry, gradients + c * plan_.spectrum, filters_ + c * plan_.filter_plane, half,
                               group, work);
    padded_ = false;
    Extents const extents = filter_extents(p_);
    auto const target = tensor(dk, p_.k_dtype, b, channels);
    if (each_tap_in_one_piece()) {
      for (auto const& piece : plan_.filter) store_planes(in_filter(piece), piece.extents.data(), at(target, piece));
      return;
    }
    for (int c = 0; c < channels.count; ++c) sum_pieces(c);
    store_planes(contiguous(taps_, extents), extents.data(), target);
  }

 private:
  // Not so where taps meet no input, or where circular axes are padded and each of their taps serves two offsets.
  bool each_tap_in_one_piece() const {
    std::size_t taps = 0;
    for (auto const& piece : plan_.filter) taps += count_of(piece.extents);
    bool const periodic = std::any_of(p_.axes.begin(), p_.axes.end(),
                                      [](Axis const& axis) { return axis.boundary == Boundary::circular; });
    return !plan_.folds && !periodic && taps == count_of(filter_extents(p_));
  }

  // The taps of a gradient's plane, several of whose positions may belong to one tap.
  void sum_pieces(int c) {
    Extents const extents = filter_extents(p_), shape = plan_.folds ? plan_.folded : extents;
    Real* const taps = taps_ + c * count_of(extents);
    Real* const target = plan_.folds ? folded_ + c * count_of(shape) : taps;
    std::fill_n(target, count_of(shape), Real(0));
    auto const& g = plan_.geometry.filter;
    for (auto const& piece : plan_.filter) {
      auto const [row_step, middle_step, column_step, first] = steps(piece, shape);
      for (std::int64_t i = 0; i < piece.extents[0]; ++i)
        for (std::int64_t j = 0; j < piece.extents[1]; ++j) {
          Real const* const from = filters_ + c * plan_.filter_plane + piece.plane + (i * g.middle + j) * g.pitch;
          Real* const row = target + first + i * row_step + j * middle_step;
          for (std::int64_t m = 0; m < piece.extents[2]; ++m) row[m * column_step] += from[m];
        }
    }
    if (plan_.folds) unfold(target, taps);
  }

  bool rows_are_neighbours() const {
    std::int64_t step = 1;
    for (int axis = plan_.walk.axis[0] + 1; axis < 3; ++axis) step *= plan_.folded[axis];
    return step == 1;
  }

  // The taps themselves, or where axes are circular its taps summed modulo the extents.
  PlaneTensor folded(PlaneTensor const& taps) {
    if (!plan_.folds) return taps;
    Extents const extents = filter_extents(p_);
    load_planes(taps, extents.data(), contiguous(taps_, extents));
    auto const& f = plan_.folded;
    for (int c = 0; c < taps.planes; ++c) {
      fold(taps_ + c * count_of(extents), folded_ + c * count_of(f));
      folded_offsets_[c] = std::int64_t(c * count_of(f));
    }
    return {
        folded_, sizeof(Real) == 4 ? FALTUNG_F32 : FALTUNG_F64, taps.planes, folded_offsets_, {f[1] * f[2], f[2], 1}};
  }

  PlaneScratch<Real> in_filter(Piece const& piece) const {
    auto const& g = plan_.geometry.filter;
    return {filters_ + piece.plane, std::int64_t(plan_.filter_plane), {g.middle * g.pitch, g.pitch, 1}};
  }
  // Calls body(tap of the filter, tap of the folded filter).
  template <typename Body>
  void for_each_fold(Body&& body) const {
    Extents const e = filter_extents(p_);
    auto const place = [&](int axis, std::int64_t m) {
      auto const& [extent, filter, centre, boundary] = p_.axes[axis];
      if (boundary != Boundary::circular) return m;
      auto const offset = (m - centre) % extent;
      return offset < 0 ? offset + extent : offset;
    };
    std::size_t tap = 0;
    for (std::int64_t i = 0; i < e[0]; ++i)
      for (std::int64_t j = 0; j < e[1]; ++j) {
        auto const row = (place(0, i) * plan_.folded[1] + place(1, j)) * plan_.folded[2];
        for (std::int64_t m = 0; m < e[2]; ++m) body(tap++, row + place(2, m));
      }
  }
  void fold(Real const* taps, Real* folded) const {
    std::fill_n(folded, count_of(plan_.folded), Real(0));
    for_each_fold([&](std::size_t tap, std::int64_t to) { folded[to] += taps[tap]; });
  }
  void unfold(Real const* folded, Real* taps) const {
    for_each_fold([&](std::size_t tap, std::int64_t from) { taps[tap] = folded[from]; });
  }

  Real *filters_, *spectra_, *taps_, *folded_;
  int capacity_;
  bool padded_ = false;
  std::int64_t folded_offsets_[most_lanes], ordered_offsets_[most_lanes];
};

}  // namespace faltung::long_conv::cpu::transformed
