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
      Staging<Real>::transposes, Staging<Real>::line_to_plane, Staging<Real>::plane_to_line, Staging<Real>::in_plane,
      Staging<Real>::in_place;

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
      outputs_ = scratch_.take<Real>(plan.image_plane);
      lines_ = scratch_.take<Real>(count_of(image_extents(problem)) * capacity);
    }
    if (plan.earlier) {
      earlier_.emplace(problem, *plan.earlier, capacity, scratch_);
      earlier_plane_ = scratch_.take<Real>(plan.earlier->image_plane);
      earlier_line_ = scratch_.take<Real>(count_of(image_extents(problem)));
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
    if (earlier_) earlier_->load(earlier_->taps_of(k, b, channels), half_, group_, work_);
    if (transposes()) filters_.load_within_blocks(k, b, channels, within_, within_room(plan_));
  }

  // The plane of x or dy, staged or where it lies.
  Real const* image(int which, int channel) const { return sources_[which] + channel * plan_.image_plane; }

  void load_image(int which, ConstView const& x, std::int64_t b, Channels channels) {
    auto const source = tensor(x, p_.x_dtype, b, channels);
    if (transposes()) {
      Extents const extents = image_extents(p_);
      load_planes(source, extents.data(), contiguous(lines_, extents));
      return;
    }
    sources_[which] = in_place(x, p_.x_dtype, b, channels);
    if (sources_[which]) return;
    sources_[which] = images_[which];
    if (plan_.image_is_padded) std::fill_n(images_[which], plan_.image_plane * channels.count, Real(0));
    for (auto const& piece : plan_.image) load_planes(at(source, piece), piece.extents.data(), in_image(which, piece));
  }

  // Where the results of sample b go: y itself if it lies as the kernels write it and nothing is added to it.
  void set_output(View const& y, ConstVector const& shortcut, std::int64_t b, Channels channels) {
    target_ = y.data && !shortcut.data ? in_place(y, p_.x_dtype, b, channels) : nullptr;
  }

  // y = result + shortcut x
  void store_image(View const& y, ConstVector const& shortcut, ConstView const& x, std::int64_t b, Channels channels) {
    if (target_) return;
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

  // The result is the convolution of image 0.
  void convolve(int channel) {
    if (transposes()) return convolve_blocks(channel);
    kernels_.convolve(plan_.geometry, filters_.spectrum(channel), nullptr, image(0, channel), result(channel), half_,
                      group_, work_);
  }

  // Blocks of a causal axis: image 0 in order, and after convolve() its result.
  Real* line() const { return lines_; }

  // image 0: dy; image 1: x; the result is dx where `spectra`.
  void backward(int channel, bool spectra, Real* gradient) {
    kernels_.backward(plan_.geometry, spectra ? filters_.spectrum(channel) : nullptr, image(0, channel),
                      gradient ? image(1, channel) : nullptr, result(channel), gradient, half_, group_, work_);
  }

  Real* gradient(int channel) const { return gradients_ + channel * plan_.spectrum; }

  // dk of channels of sample b, from the spectra of the gradients, one after another.
  void store_filter_gradients(Real const* gradients, View const& dk, std::int64_t b, Channels channels) {
    // Sums in 3D come from so many points that the inverse in fp32 would be one error too many for the contract.
    bool const deep = std::all_of(p_.axes.begin(), p_.axes.end(), [](Axis const& axis) { return axis.extent > 1; });
    if constexpr (sizeof(Real) == sizeof(float))
      if (precise_ && deep && p_.x_dtype == FALTUNG_F32) {
        auto const& precise = *plan_.precise;
        double* const group = precise_memory_ + precise.filter_half;
        for (int c = 0; c < channels.count; ++c) {
          kernels_.widen_spectrum(gradients + c * plan_.spectrum, precise.geometry.groups,
                                  2 * precise.geometry.middle_points * precise.geometry.column_points,
                                  precise_->spectrum(0));
          precise_->store_gradients(precise_->spectrum(0), dk, b, {channels.first + c, 1}, precise_memory_, group,
                                    group + precise.group);
        }
        return;
      }
    filters_.store_gradients(gradients, dk, b, channels, half_, group_, work_);
  }

 private:
  Real* result(int channel) const { return target_ ? target_ : images_[0] + channel * plan_.image_plane; }

  // Blocks of a causal axis: the line of the channel, by way of planes; its input is needed to the end.
  void convolve_blocks(int channel) {
    auto const extents = image_extents(p_);
    Real* const line = lines_ + channel * count_of(extents);
    if (earlier_) {
      auto const& earlier = *plan_.earlier;
      auto const middle = earlier.geometry.image.middle;
      earlier_->line_to_plane(line, extents, middle, earlier_plane_);
      kernels_.convolve(earlier.geometry, earlier_->spectrum(channel), nullptr, earlier_plane_, earlier_plane_, half_,
                        group_, work_);
      earlier_->plane_to_line(earlier_plane_, extents, middle, earlier_line_);
    }
    // Row by row of tiles where the middle axis is cut.
    int const axis = plan_.walk.axis[1];
    std::int64_t const all = extents[axis], step = plan_.tile_rows ? plan_.tile_rows : all;
    std::int64_t const pitch = axis == 0 ? extents[1] * extents[2] : axis == 1 ? extents[2] : 1;
    for (std::int64_t first = 0; first < all; first += step) {
      auto const rows = std::min(step, all - first);
      line_to_plane(line + first * pitch, extents, rows, images_[0]);
      kernels_.convolve(plan_.geometry, filters_.spectrum(channel), within_ + channel * within_room(plan_), images_[0],
                        outputs_, half_, group_, work_);
      plane_to_line(outputs_, extents, rows, line + first * pitch);
    }
    if (earlier_)
      for (std::size_t i = 0; i < count_of(extents); ++i) line[i] += earlier_line_[i];
  }

  static std::size_t within_room(Plan const& plan) {
    return std::size_t(plan.geometry.image.rows) * plan.geometry.image.middle;
  }
  // Memory of the kernels, for whichever of the plans needs most.
  static std::size_t half_room(Plan const& plan, int planes) {
    auto const own = std::max(plan.image_half * planes, plan.filter_half);
    return plan.earlier ? std::max(own, half_room(*plan.earlier, planes)) : own;
  }
  static std::size_t group_room(Plan const& plan, int planes) {
    return std::max(plan.group * planes, plan.earlier ? plan.earlier->group * planes : 0);
  }
  static std::size_t work_room(Plan const& plan) { return std::max(plan.work, plan.earlier ? plan.earlier->work : 0); }
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
      result +=
          room(within_room(plan) * capacity) + room(plan.image_plane) + room(count_of(image_extents(p)) * capacity);
    if (plan.earlier)
      result += Filters<Real>::bytes(p, *plan.earlier, capacity) + room(plan.earlier->image_plane) +
                room(count_of(image_extents(p)));
    if (sizeof(Real) == 4 && plan.precise)
      result +=
          Filters<double>::bytes(p, *plan.precise, capacity) + Scratch::padded<double>(kernel_room(*plan.precise));
    return result;
  }

  PlaneScratch<Real> in_image(int which, Piece const& piece) const { return in_plane(piece, images_[which]); }

  Scratch scratch_;
  Filters<Real> filters_;
  std::optional<Filters<double>> precise_;
  double* precise_memory_ = nullptr;
  std::optional<Filters<Real>> earlier_;  // of plan_.earlier
  Real *earlier_plane_ = nullptr, *earlier_line_ = nullptr;
  Real* images_[2] = {};  // room for staged planes, and for results
  Real const* sources_[2] = {};
  Real* target_ = nullptr;
  Real *gradients_, *half_, *group_, *work_;
  Real *within_ = nullptr, *outputs_ = nullptr,
       *lines_ = nullptr;  // blocks of a causal axis: taps within one, y, x or y in order
  std::int64_t offsets_of_x_[most_lanes];
};

}  // namespace faltung::long_conv::cpu::transformed
