// What one thread of cpu.transformed does with some channels: stages filters and images of any dtype and layout into
// planes, has them transformed, and stores results. Owns the scratch memory; what it computes does not depend on how a
// call was split into tasks.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "core/scratch.hpp"
#include "long_conv/cpu/planes.hpp"
#include "long_conv/cpu/transformed_plan.hpp"

namespace faltung::long_conv::cpu::transformed {

// Channels [first, first + count) of a task; more than one where x has unit stride over channels.
struct Channels {
  std::int64_t first;
  int count;
};

template <typename Real>
class Task {
 public:
  using Plan = TransformedPlan<Real>;

  Task(Problem const& problem, Plan const& plan, int capacity, bool needs_gradient)
      : p_(problem),
        plan_(plan),
        kernels_(transformed_kernels<Real>()),
        scratch_(bytes(problem, plan, capacity, needs_gradient)) {
    int const planes = needs_gradient ? 2 : 1;
    for (auto& image : images_)
      if (&image < images_ + planes) image = scratch_.take<Real>(plan.image_plane * capacity);
    filters_ = scratch_.take<Real>(plan.filter_plane * capacity);
    spectra_ = scratch_.take<Real>(plan.spectrum * capacity);
    gradients_ = needs_gradient ? scratch_.take<Real>(plan.spectrum * capacity) : nullptr;
    taps_ = scratch_.take<Real>(tap_room(problem, plan) * capacity);
    folded_ = plan.folds ? scratch_.take<Real>(count_of(plan.folded) * capacity) : nullptr;
    if (transposes()) {
      within_ = scratch_.take<Real>(within_room(plan) * capacity);
      outputs_ = scratch_.take<Real>(plan.image_plane * capacity);
      lines_ = scratch_.take<Real>(count_of(image_extents()) * capacity);
    }
    half_ = scratch_.take<Real>(std::max(plan.image_half * planes, plan.filter_half));
    group_ = scratch_.take<Real>(plan.group * planes);
    work_ = scratch_.take<Real>(plan.work);
    // Rows of padding frequencies are transformed along with the others and dropped: give them a value once.
    std::fill_n(half_, std::max(plan.image_half * planes, plan.filter_half), Real(0));
  }

  // spectra_ = those of the filters of sample b.
  void load_filters(ConstView const& k, std::int64_t b, Channels channels) {
    std::fill_n(filters_, plan_.filter_plane * channels.count, Real(0));
    PlaneTensor source = tensor(k, p_.k_dtype, b, channels);
    if (plan_.folds) {
      Extents const extents = filter_extents();
      load_planes(source, extents.data(), contiguous(taps_, extents));
      for (int c = 0; c < channels.count; ++c)
        fold(taps_ + c * count_of(extents), folded_ + c * count_of(plan_.folded));
      source = folded_tensor(folded_, channels.count);
    }
    if (transposes()) {
      Extents const extents = plan_.folded;
      Real* const taps = plan_.folds ? folded_ : taps_;
      if (!plan_.folds) load_planes(source, extents.data(), contiguous(taps, extents));
      for (int c = 0; c < channels.count; ++c)
        for (auto const& piece : plan_.filter)
          transpose_in(piece, taps + c * count_of(extents), extents, filters_ + c * plan_.filter_plane,
                       plan_.geometry.filter);
    } else {
      for (auto const& piece : plan_.filter) load_planes(at(source, piece), piece.extents.data(), in_filter(piece));
    }
    if (transposes()) load_taps_within_blocks(source, channels);
    for (int c = 0; c < channels.count; ++c)
      kernels_.filter_spectrum(plan_.geometry, filters_ + c * plan_.filter_plane, spectra_ + c * plan_.spectrum, half_,
                               group_, work_);
  }

  void load_taps_within_blocks(PlaneTensor const& k, Channels channels) {
    auto const& e = plan_.within_block.extents;
    std::fill_n(within_, within_room(plan_) * channels.count, Real(0));
    // What are rows of the plane run along the innermost axis of this scratch.
    PlaneTensor from = at(k, plan_.within_block);
    std::swap(from.strides[0], from.strides[2]);
    std::int64_t const extents[3] = {1, e[1], e[0]};
    load_planes(from, extents, {within_, std::int64_t(within_room(plan_)), {0, plan_.geometry.image.rows, 1}});
  }

  Real* image(int which, int channel) const { return images_[which] + channel * plan_.image_plane; }

  void load_image(int which, ConstView const& x, std::int64_t b, Channels channels) {
    if (plan_.image_is_padded) std::fill_n(images_[which], plan_.image_plane * channels.count, Real(0));
    auto const source = tensor(x, p_.x_dtype, b, channels);
    if (transposes()) {
      Extents const extents = image_extents();
      load_planes(source, extents.data(), contiguous(lines_, extents));
      for (int c = 0; c < channels.count; ++c)
        for (auto const& piece : plan_.image)
          transpose_in(piece, lines_ + c * count_of(extents), extents, image(which, c), plan_.geometry.image);
      return;
    }
    for (auto const& piece : plan_.image) load_planes(at(source, piece), piece.extents.data(), in_image(which, piece));
  }

  // y = image 0 + shortcut x
  void store_image(View const& y, ConstVector const& shortcut, ConstView const& x, std::int64_t b, Channels channels) {
    Real factors[most_lanes] = {};
    if (shortcut.data) {
      PlaneTensor const from{const_cast<void*>(shortcut.data), p_.shortcut_dtype, 1, &zero_, {0, 0, shortcut.stride}};
      PlaneTensor moved = from;
      std::int64_t const offset = channels.first * shortcut.stride;
      moved.offsets = &offset;
      std::int64_t const extents[3] = {1, 1, channels.count};
      load_planes(moved, extents, {factors, most_lanes, {most_lanes, most_lanes, 1}});
    }
    auto const target = tensor(y, p_.x_dtype, b, channels);
    auto const input = shortcut.data ? tensor(x, p_.x_dtype, b, channels, offsets_of_x_) : PlaneTensor{};

    if (transposes()) {
      Extents const extents = image_extents();
      for (int c = 0; c < channels.count; ++c)
        for (auto const& piece : plan_.image)
          transpose_out(piece, outputs_ + c * plan_.image_plane, plan_.geometry.image, lines_ + c * count_of(extents),
                        extents);
      store_planes(contiguous(lines_, extents), extents.data(), target,
                   PlaneShortcut<Real>{shortcut.data ? factors : nullptr, input});
      return;
    }
    for (auto const& piece : plan_.image) {
      PlaneShortcut<Real> const term{shortcut.data ? factors : nullptr,
                                     shortcut.data ? at(input, piece) : PlaneTensor{}};
      store_planes(in_image(0, piece), piece.extents.data(), at(target, piece), term);
    }
  }

  // Image 0 becomes its convolution; with blocks of a causal axis, which need their input to the end, it goes to
  // outputs_.
  void convolve(int channel) {
    kernels_.convolve(plan_.geometry, spectra_ + channel * plan_.spectrum,
                      transposes() ? within_ + channel * within_room(plan_) : nullptr, image(0, channel),
                      transposes() ? outputs_ + channel * plan_.image_plane : image(0, channel), half_, group_, work_);
  }

  // image 0: dy, becomes dx where `spectra`; image 1: x.
  void backward(int channel, bool spectra, Real* gradient) {
    kernels_.backward(plan_.geometry, spectra ? spectra_ + channel * plan_.spectrum : nullptr, image(0, channel),
                      gradient ? image(1, channel) : nullptr, gradient, half_, group_, work_);
  }

  Real* gradient(int channel) const { return gradients_ + channel * plan_.spectrum; }

  // dk of one channel of sample b, from the spectrum of the gradient.
  void store_filter_gradient(Real const* gradient, View const& dk, std::int64_t b, std::int64_t channel) {
    kernels_.filter_gradient(plan_.geometry, gradient, filters_, half_, group_, work_);
    Extents const extents = filter_extents();
    Real* const target = plan_.folds ? folded_ : taps_;
    Extents const shape = plan_.folds ? plan_.folded : extents;
    std::fill_n(target, count_of(shape), Real(0));
    auto const& g = plan_.geometry.filter;
    for (auto const& piece : plan_.filter) {
      auto const [row_step, middle_step, column_step, first] = steps(piece, shape);
      for (std::int64_t i = 0; i < piece.extents[0]; ++i)
        for (std::int64_t j = 0; j < piece.extents[1]; ++j) {
          Real const* const from = filters_ + piece.plane + (i * g.middle + j) * g.pitch;
          Real* const row = target + first + i * row_step + j * middle_step;
          for (std::int64_t m = 0; m < piece.extents[2]; ++m) row[m * column_step] += from[m];
        }
    }
    if (plan_.folds) unfold(folded_, taps_);
    store_planes(contiguous(taps_, extents), extents.data(), tensor(dk, p_.k_dtype, b, {channel, 1}));
  }

 private:
  static std::size_t count_of(Extents const& e) { return std::size_t(e[0]) * e[1] * e[2]; }
  Extents filter_extents() const { return {p_.axes[0].filter, p_.axes[1].filter, p_.axes[2].filter}; }
  static Extents image_extents(Problem const& p) { return {p.axes[0].extent, p.axes[1].extent, p.axes[2].extent}; }
  Extents image_extents() const { return image_extents(p_); }

  // Blocks of a causal axis: rows of the plane are neighbours in memory.
  static bool transposes(Plan const& plan) { return plan.arrangement == Arrangement::causal_blocks; }
  bool transposes() const { return transposes(plan_); }
  static std::size_t within_room(Plan const& plan) {
    return std::size_t(plan.geometry.image.rows) * plan.geometry.image.middle;
  }
  static std::size_t tap_room(Problem const& p, Plan const&) {
    return std::size_t(p.axes[0].filter) * p.axes[1].filter * p.axes[2].filter;
  }

  static std::size_t bytes(Problem const& p, Plan const& plan, int capacity, bool needs_gradient) {
    auto const room = [](std::size_t count) { return Scratch::padded<Real>(count); };
    std::size_t const planes = needs_gradient ? 2 : 1;
    return planes * room(plan.image_plane * capacity) + room(plan.filter_plane * capacity) +
           planes * room(plan.spectrum * capacity) + room(tap_room(p, plan) * capacity) +
           (plan.folds ? room(count_of(plan.folded) * capacity) : 0) +
           (transposes(plan) ? room(within_room(plan) * capacity) + room(plan.image_plane * capacity) +
                                   room(count_of(image_extents(p)) * capacity)
                             : 0) +
           room(std::max(plan.image_half * planes, plan.filter_half)) + room(plan.group * planes) + room(plan.work);
  }

  // The channels of sample b as planes of the problem's own axes.
  PlaneTensor tensor(ConstView const& view, Dtype dtype, std::int64_t b, Channels channels, std::int64_t* offsets) {
    for (int c = 0; c < channels.count; ++c)
      offsets[c] = b * view.strides.batch + (channels.first + c) * view.strides.channel;
    auto const& s = view.strides.spatial;
    return {const_cast<void*>(view.data), dtype, channels.count, offsets, {s[0], s[1], s[2]}};
  }
  PlaneTensor tensor(ConstView const& view, Dtype dtype, std::int64_t b, Channels channels) {
    return tensor(view, dtype, b, channels, offsets_);
  }

  PlaneTensor folded_tensor(Real* data, int count) {
    auto const& f = plan_.folded;
    for (int c = 0; c < count; ++c) offsets_[c] = std::int64_t(c * count_of(f));
    return {data, sizeof(Real) == 4 ? FALTUNG_F32 : FALTUNG_F64, count, offsets_, {f[1] * f[2], f[2], 1}};
  }

  // The tensor as the axes of the plane walk over it, from the first point of the piece.
  PlaneTensor at(PlaneTensor const& t, Piece const& piece) const {
    PlaneTensor result = t;
    std::int64_t offset = 0;
    for (int i = 0; i < 3; ++i) {
      offset += piece.source[i] * t.strides[i];
      result.strides[i] = t.strides[plan_.walk.axis[i]] * plan_.walk.step[i];
    }
    result.data = static_cast<std::byte*>(t.data) + offset * size_of(t.dtype);
    return result;
  }

  // Elements between neighbours along rows, middle and columns of a piece in an array [shape], and its first element.
  std::array<std::int64_t, 4> steps(Piece const& piece, Extents const& shape) const {
    Extents const pitch = {shape[1] * shape[2], shape[2], 1};
    auto const& [axis, step] = plan_.walk;
    return {step[0] * pitch[axis[0]], step[1] * pitch[axis[1]], step[2] * pitch[axis[2]],
            piece.source[0] * pitch[0] + piece.source[1] * pitch[1] + piece.source[2] * pitch[2]};
  }

  // A piece between the order of the problem, [extents], and a plane whose rows are neighbours there.
  void transpose_in(Piece const& piece, Real const* from, Extents const& extents, Real* plane, Grid const& g) const {
    auto const [row_step, middle_step, column_step, first] = steps(piece, extents);
    (void)row_step;
    for (std::int64_t i = 0; i < piece.extents[1]; ++i)
      kernels_.transpose(from + first + i * middle_step, column_step, piece.extents[2], piece.extents[0],
                         plane + piece.plane + i * g.pitch, g.middle * g.pitch);
  }
  void transpose_out(Piece const& piece, Real const* plane, Grid const& g, Real* to, Extents const& extents) const {
    auto const [row_step, middle_step, column_step, first] = steps(piece, extents);
    (void)row_step;
    for (std::int64_t i = 0; i < piece.extents[1]; ++i)
      kernels_.transpose(plane + piece.plane + i * g.pitch, g.middle * g.pitch, piece.extents[0], piece.extents[2],
                         to + first + i * middle_step, column_step);
  }

  PlaneScratch<Real> contiguous(Real* data, Extents const& e) const {
    return {data, std::int64_t(count_of(e)), {e[1] * e[2], e[2], 1}};
  }
  PlaneScratch<Real> in_filter(Piece const& piece) const {
    auto const& g = plan_.geometry.filter;
    return {filters_ + piece.plane, std::int64_t(plan_.filter_plane), {g.middle * g.pitch, g.pitch, 1}};
  }
  PlaneScratch<Real> in_image(int which, Piece const& piece) const {
    auto const& g = plan_.geometry.image;
    return {images_[which] + piece.plane, std::int64_t(plan_.image_plane), {g.middle * g.pitch, g.pitch, 1}};
  }

  // Calls body(tap of the filter, tap of the folded filter).
  template <typename Body>
  void for_each_fold(Body&& body) const {
    Extents const e = filter_extents();
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

  Problem const& p_;
  Plan const& plan_;
  TransformedKernels<Real> const& kernels_;
  Scratch scratch_;
  Real* images_[2] = {};
  Real *filters_, *spectra_, *gradients_, *taps_, *folded_, *half_, *group_, *work_;
  Real *within_ = nullptr, *outputs_ = nullptr,
       *lines_ = nullptr;  // blocks of a causal axis: taps within one, y, x or y in order
  std::int64_t offsets_[most_lanes], offsets_of_x_[most_lanes];
  static constexpr std::int64_t zero_ = 0;
};

}  // namespace faltung::long_conv::cpu::transformed
