// How a call goes through planes.
#include "long_conv/cuda/planes.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/plane_copies.hpp"

namespace faltung::long_conv::cuda {
namespace {

constexpr std::int64_t least_channels = 16;  // a sector of 16-bit elements
constexpr std::size_t bytes_at_once = std::size_t(256) << 20;

std::int64_t points_of(std::array<std::int64_t, 3> const& extents) { return extents[0] * extents[1] * extents[2]; }

// The call for a range of channels, and where its planes lie in the workspace.
class Planes {
 public:
  Planes(Implementation const& inner, Problem const& p) : inner_(inner), p_(p) {
    bool const backward = p.direction == Direction::backward;
    bool const shared = p.sharing == FilterSharing::shared;
    for (int i = 0; i < 3; ++i) extents_[i] = p.axes[i].extent, filters_[i] = p.axes[i].filter;
    filter_batch_ = shared ? 1 : p.batch;
    std::size_t const image = p.batch * points_of(extents_) * size_of(p.x_dtype),
                      filter = filter_batch_ * points_of(filters_) * size_of(p.k_dtype);
    std::size_t const channel = (backward ? 3 : 2) * image + (backward ? 2 : 1) * filter;
    channels_ = std::clamp<std::int64_t>(bytes_at_once / std::max<std::size_t>(1, channel), 1, p.channels);
    if (channels_ < p.channels) channels_ = std::max<std::int64_t>(channels_ / 32 * 32, 1);
    image_bytes_ = (image * channels_ + 255) / 256 * 256, filter_bytes_ = (filter * channels_ + 255) / 256 * 256;
    own_bytes_ = (backward ? 3 : 2) * image_bytes_ + (backward ? 2 : 1) * filter_bytes_;
  }

  std::int64_t channels() const { return channels_; }
  std::size_t workspace() const {
    return own_bytes_ + std::max(inner_.workspace(part(0)), inner_.workspace(part((p_.channels - 1) / channels_)));
  }

  // The problem of the i-th range of channels.
  Problem part(std::int64_t i) const {
    Problem result = p_;
    result.channels = std::min(channels_, p_.channels - i * channels_);
    result.unit_stride = UnitStride::innermost;
    return result;
  }

  void forward(ForwardArgs const& a) const {
    for (std::int64_t i = 0; i * channels_ < p_.channels; ++i) {
      auto const p = part(i);
      char* at = static_cast<char*>(a.runtime.workspace);
      auto const y = range(a.y, i, p_.x_dtype);
      PlaneCopies in{.copies = {}, .to_planes = true}, out{.copies = {}, .to_planes = false};
      ForwardArgs part{.x = image(in, range(a.x, i, p_.x_dtype), at, p.channels),
                       .k = filter(in, range(a.k, i, p_.k_dtype), at, p.channels),
                       .shortcut = range(a.shortcut, i),
                       .y = written(image(out, y, at, p.channels)),
                       .runtime = a.runtime};
      part.runtime.workspace = static_cast<char*>(a.runtime.workspace) + own_bytes_;
      auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
      copy_planes(in, stream);
      inner_.forward(p, part);
      copy_planes(out, stream);
    }
  }

  void backward(BackwardArgs const& a) const {
    for (std::int64_t i = 0; i * channels_ < p_.channels; ++i) {
      auto const p = part(i);
      char* at = static_cast<char*>(a.runtime.workspace);
      PlaneCopies in{.copies = {}, .to_planes = true}, out{.copies = {}, .to_planes = false};
      BackwardArgs part{.dy = image(in, range(a.dy, i, p_.x_dtype), at, p.channels),
                        .x = image(in, range(a.x, i, p_.x_dtype), at, p.channels),
                        .k = filter(in, range(a.k, i, p_.k_dtype), at, p.channels),
                        .shortcut = range(a.shortcut, i),
                        .dx = written(image(out, range(a.dx, i, p_.x_dtype), at, p.channels)),
                        .dk = written(filter(out, range(a.dk, i, p_.k_dtype), at, p.channels)),
                        .dshortcut = {},
                        .runtime = a.runtime};
      if (a.dshortcut.data) {
        part.dshortcut = a.dshortcut;
        part.dshortcut.data = static_cast<char*>(a.dshortcut.data) +
                              i * channels_ * a.dshortcut.stride * std::int64_t(size_of(p_.shortcut_dtype));
      }
      part.runtime.workspace = static_cast<char*>(a.runtime.workspace) + own_bytes_;
      auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
      copy_planes(in, stream);
      inner_.backward(p, part);
      copy_planes(out, stream);
    }
  }

 private:
  // The channels of the i-th range.
  ConstView range(ConstView view, std::int64_t i, Dtype dtype) const {
    if (view.data)
      view.data =
          static_cast<char const*>(view.data) + i * channels_ * view.strides.channel * std::int64_t(size_of(dtype));
    return view;
  }
  ConstVector range(ConstVector vector, std::int64_t i) const {
    if (vector.data)
      vector.data = static_cast<char const*>(vector.data) +
                    i * channels_ * vector.stride * std::int64_t(size_of(p_.shortcut_dtype));
    return vector;
  }

  // Planes at `at`, which moves on, and their copy to or from the view; the view itself where rows are contiguous.
  ConstView image(PlaneCopies& copies, ConstView const& view, char*& at, std::int64_t channels) const {
    return planes(copies, view, at, image_bytes_, p_.x_dtype, p_.batch, channels, extents_);
  }
  ConstView filter(PlaneCopies& copies, ConstView const& view, char*& at, std::int64_t channels) const {
    auto result = planes(copies, view, at, filter_bytes_, p_.k_dtype, filter_batch_, channels, filters_);
    if (p_.sharing == FilterSharing::shared) result.strides.batch = 0;
    return result;
  }
  static ConstView planes(PlaneCopies& copies, ConstView const& view, char*& at, std::size_t bytes, Dtype dtype,
                          std::int64_t batch, std::int64_t channels, std::array<std::int64_t, 3> const& extents) {
    void* const planes = at;
    at += bytes;
    if (!view.data || view.strides.spatial[2] == 1) return view;
    add_copy(copies, view, planes, dtype, batch, channels, extents);
    std::int64_t const points = points_of(extents);
    return {planes,
            {.batch = channels * points, .channel = points, .spatial = {extents[1] * extents[2], extents[2], 1}}};
  }
  static View written(ConstView const& view) { return {const_cast<void*>(view.data), view.strides}; }

  Implementation const& inner_;
  Problem const& p_;
  std::array<std::int64_t, 3> extents_, filters_;
  std::int64_t filter_batch_, channels_;
  std::size_t image_bytes_, filter_bytes_, own_bytes_;
};

}  // namespace

bool through_planes(Problem const& p) {
  std::int64_t points = 1, taps = 1;
  for (auto const& axis : p.axes) {
    if (axis.extent >= std::int64_t(1) << 31 || axis.filter >= std::int64_t(1) << 31) return false;
    points *= axis.extent, taps *= axis.filter;
    if (points >= std::int64_t(1) << 31 || taps >= std::int64_t(1) << 31) return false;
  }
  // Tiles of a launch are counted in 31 bits.
  std::int64_t const most = std::max(points, taps) / 64 + 1;
  return p.unit_stride == UnitStride::channel && p.channels >= least_channels && points > 1 &&
         p.batch <= (std::int64_t(1) << 31) / (most * ((p.channels + 31) / 32));
}

std::string policy_through_planes(Implementation const& inner, Problem const& p) {
  if (!through_planes(p)) return inner.policy(p);
  Planes const planes(inner, p);
  return concatenate(inner.policy(planes.part(0)), "; copied into planes of ", planes.channels(), " channels and back");
}

std::size_t workspace_through_planes(Implementation const& inner, Problem const& p) {
  return through_planes(p) ? Planes(inner, p).workspace() : inner.workspace(p);
}

void forward_through_planes(Implementation const& inner, Problem const& p, ForwardArgs const& a) {
  if (!through_planes(p)) return inner.forward(p, a);
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  Planes(inner, p).forward(a);
}

void backward_through_planes(Implementation const& inner, Problem const& p, BackwardArgs const& a) {
  if (!through_planes(p)) return inner.backward(p, a);
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  Planes(inner, p).backward(a);
}

}  // namespace faltung::long_conv::cuda
