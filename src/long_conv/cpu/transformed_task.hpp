// What one thread of cpu.transformed does with some channels: stages images, has them transformed and multiplied with
// their filters' spectra, and stores results. Owns the scratch memory; what it computes does not depend on how a call
// was split into tasks.
#pragma once
#include <algorithm>
#include <optional>

#include "core/scratch.hpp"
#include "long_conv/cpu/transformed_filters.hpp"
#include "long_conv/cpu/transformed_staging.hpp"

namespace faltung::long_conv::cpu::transformed {

template <typename Real>
class Task : Staging<Real> {
  using Staging<Real>::p_, Staging<Real>::plan_, Staging<Real>::kernels_, Staging<Real>::tensor, Staging<Real>::at,
      Staging<Real>::transpose_in, Staging<Real>::transpose_out, Staging<Real>::transposes;

 public:
  using typename Staging<Real>::Plan;

  Task(Problem const& problem, Plan const& plan, int capacity, bool needs_gradient)
      : Staging<Real>(problem, plan),
        scratch_(bytes(problem, plan, capacity, needs_gradient)),
        filters_(problem, plan, capacity, scratch_) {
    int const planes = needs_gradient ? 2 : 1;
    for (int i = 0; i < planes; ++i) images_[i] = scratch_.take<Real>(plan.image_plane * capacity);
    gradients_ = needs_gradient ? scratch_.take<Real>(plan.spectrum * capacity) : nullptr;
    if (transposes()) {
      within_ = scratch_.take<Real>(within_room(plan) * capacity);
      outputs_ = scratch_.take<Real>(plan.image_plane * capacity);
      lines_ = scratch_.take<Real>(count_of(image_extents(problem)) * capacity);
    }
    if (plan.between_runs) {
      runs_.emplace(problem, *plan.between_runs, capacity, scratch_);
      runs_planes_ = scratch_.take<Real>(plan.between_runs->image_plane * capacity);
      runs_lines_ = scratch_.take<Real>(count_of(image_extents(problem)));
    }
    half_ = scratch_.take<Real>(half_room(plan, planes));
    group_ = scratch_.take<Real>(group_room(plan, planes));
    work_ = scratch_.take<Real>(work_room(plan));
    // Rows of padding frequencies are transformed along with the others and dropped: give them a value once.
    std::fill_n(half_, half_room(plan, planes), Real(0));
    if constexpr (sizeof(Real) == 4)
      if (plan.precise) {
        precise_.emplace(problem, *plan.precise, capacity, scratch_);
        precise_memory_ = scratch_.take<double>(kernel_room(*plan.precise));
        std::fill_n(precise_memory_, plan.precise->filter_half, 0.0);
      }
  }

  // Makes the spectra of the filters of sample b.
  void load_filters(ConstView const& k, std::int64_t b, Channels channels) {
    if (precise_) {
      auto const& precise = *plan_.precise;
      double* const group = precise_memory_ + precise.filter_half;
      // Planes that are staged together are at most as many as a register has lanes: it holds fewer doubles.
      int const most = transformed_kernels<double>().lanes;
      for (int done = 0; done < channels.count; done += most) {
        Channels const some{channels.first + done, std::min(channels.count - done, most)};
        bool const narrow = p_.k_dtype == FALTUNG_F16 || p_.k_dtype == FALTUNG_BF16;
        precise_->load(narrow ? filters_.ordered_taps_of(k, b, some) : precise_->taps_of(k, b, some), precise_memory_,
                       group, group + precise.group);
        if constexpr (sizeof(Real) == sizeof(float))
          for (int c = 0; c < some.count; ++c)
            kernels_.round_spectrum(precise_->spectrum(c), precise.geometry.groups,
                                    2 * precise.geometry.middle_points * precise.geometry.column_points,
                                    filters_.spectrum(done + c));
      }
    } else {
      filters_.load(filters_.taps_of(k, b, channels), half_, group_, work_);
    }
    if (runs_) runs_->load(runs_->taps_of(k, b, channels), half_, group_, work_);
    if (transposes()) filters_.load_within_blocks(k, b, channels, within_, within_room(plan_));
  }

  Real* image(int which, int channel) const { return images_[which] + channel * plan_.image_plane; }

  void load_image(int which, ConstView const& x, std::int64_t b, Channels channels) {
    if (plan_.image_is_padded) std::fill_n(images_[which], plan_.image_plane * channels.count, Real(0));
    auto const source = tensor(x, p_.x_dtype, b, channels);
    if (transposes()) {
      Extents const extents = image_extents(p_);
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
      std::int64_t const first = channels.first * shortcut.stride;
      PlaneTensor const from{const_cast<void*>(shortcut.data), p_.shortcut_dtype, 1, &first, {0, 0, shortcut.stride}};
      std::int64_t const extents[3] = {1, 1, channels.count};
      load_planes(from, extents, {factors, most_lanes, {most_lanes, most_lanes, 1}});
    }
    auto const target = tensor(y, p_.x_dtype, b, channels);
    auto const input = shortcut.data ? tensor(x, p_.x_dtype, b, channels, offsets_of_x_) : PlaneTensor{};

    if (transposes()) {
      Extents const extents = image_extents(p_);
      for (int c = 0; c < channels.count; ++c) {
        Real* const line = lines_ + c * count_of(extents);
        for (auto const& piece : plan_.image)
          transpose_out(piece, outputs_ + c * plan_.image_plane, plan_.geometry.image, line, extents);
        if (!runs_) continue;
        auto const& runs = *plan_.between_runs;
        for (auto const& piece : runs.image)
          runs_->transpose_out(piece, runs_planes_ + c * runs.image_plane, runs.geometry.image, runs_lines_, extents);
        for (std::size_t i = 0; i < count_of(extents); ++i) line[i] += runs_lines_[i];
      }
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
    kernels_.convolve(plan_.geometry, filters_.spectrum(channel),
                      transposes() ? within_ + channel * within_room(plan_) : nullptr, image(0, channel),
                      transposes() ? outputs_ + channel * plan_.image_plane : image(0, channel), half_, group_, work_);
    if (!runs_) return;
    // lines_ still holds the input in order.
    auto const& runs = *plan_.between_runs;
    auto const extents = image_extents(p_);
    Real* const plane = runs_planes_ + channel * runs.image_plane;
    if (runs.image_is_padded) std::fill_n(plane, runs.image_plane, Real(0));
    for (auto const& piece : runs.image)
      runs_->transpose_in(piece, lines_ + channel * count_of(extents), extents, plane, runs.geometry.image);
    kernels_.convolve(runs.geometry, runs_->spectrum(channel), nullptr, plane, plane, half_, group_, work_);
  }

  // image 0: dy, becomes dx where `spectra`; image 1: x.
  void backward(int channel, bool spectra, Real* gradient) {
    kernels_.backward(plan_.geometry, spectra ? filters_.spectrum(channel) : nullptr, image(0, channel),
                      gradient ? image(1, channel) : nullptr, gradient, half_, group_, work_);
  }

  Real* gradient(int channel) const { return gradients_ + channel * plan_.spectrum; }

  void store_filter_gradient(Real const* gradient, View const& dk, std::int64_t b, std::int64_t channel) {
    filters_.store_gradient(gradient, dk, b, channel, half_, group_, work_);
  }

 private:
  static std::size_t within_room(Plan const& plan) {
    return std::size_t(plan.geometry.image.rows) * plan.geometry.image.middle;
  }
  // Memory of the kernels, for whichever of the plans needs most.
  static std::size_t half_room(Plan const& plan, int planes) {
    auto const own = std::max(plan.image_half * planes, plan.filter_half);
    return plan.between_runs ? std::max(own, half_room(*plan.between_runs, planes)) : own;
  }
  static std::size_t group_room(Plan const& plan, int planes) {
    return std::max(plan.group * planes, plan.between_runs ? plan.between_runs->group * planes : 0);
  }
  static std::size_t work_room(Plan const& plan) {
    return std::max(plan.work, plan.between_runs ? plan.between_runs->work : 0);
  }
  // half, group and work of a filter, one after the other.
  static std::size_t kernel_room(TransformedPlan<double> const& plan) {
    return plan.filter_half + plan.group + plan.work;
  }

  static std::size_t bytes(Problem const& p, Plan const& plan, int capacity, bool needs_gradient) {
    auto const room = [](std::size_t count) { return Scratch::padded<Real>(count); };
    int const planes = needs_gradient ? 2 : 1;
    std::size_t result = Filters<Real>::bytes(p, plan, capacity) + planes * room(plan.image_plane * capacity) +
                         (needs_gradient ? room(plan.spectrum * capacity) : 0) + room(half_room(plan, planes)) +
                         room(group_room(plan, planes)) + room(work_room(plan));
    if (transposes(plan))
      result += room(within_room(plan) * capacity) + room(plan.image_plane * capacity) +
                room(count_of(image_extents(p)) * capacity);
    if (plan.between_runs)
      result += Filters<Real>::bytes(p, *plan.between_runs, capacity) +
                room(plan.between_runs->image_plane * capacity) + room(count_of(image_extents(p)));
    if (sizeof(Real) == 4 && plan.precise)
      result +=
          Filters<double>::bytes(p, *plan.precise, capacity) + Scratch::padded<double>(kernel_room(*plan.precise));
    return result;
  }

  PlaneScratch<Real> in_image(int which, Piece const& piece) const {
    auto const& g = plan_.geometry.image;
    return {images_[which] + piece.plane, std::int64_t(plan_.image_plane), {g.middle * g.pitch, g.pitch, 1}};
  }

  Scratch scratch_;
  Filters<Real> filters_;
  std::optional<Filters<double>> precise_;
  double* precise_memory_ = nullptr;
  std::optional<Filters<Real>> runs_;  // of plan_.between_runs
  Real *runs_planes_ = nullptr, *runs_lines_ = nullptr;
  Real* images_[2] = {};
  Real *gradients_, *half_, *group_, *work_;
  Real *within_ = nullptr, *outputs_ = nullptr,
       *lines_ = nullptr;  // blocks of a causal axis: taps within one, y, x or y in order
  std::int64_t offsets_of_x_[most_lanes];
};

}  // namespace faltung::long_conv::cpu::transformed
