// How tensors of any dtype and layout come into the planes of cpu.transformed and back: shared by its images and its
// filters.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "long_conv/cpu/planes.hpp"
#include "long_conv/cpu/transformed_plan.hpp"

namespace faltung::long_conv::cpu::transformed {

// Channels [first, first + count) of a task; more than one where x or k has unit stride over channels.
struct Channels {
  std::int64_t first;
  int count;
};

inline std::size_t count_of(Extents const& e) { return std::size_t(e[0]) * e[1] * e[2]; }
inline Extents image_extents(Problem const& p) { return {p.axes[0].extent, p.axes[1].extent, p.axes[2].extent}; }
inline Extents filter_extents(Problem const& p) { return {p.axes[0].filter, p.axes[1].filter, p.axes[2].filter}; }

// A block of planes in the order of the problem, [planes][extents].
template <typename Real>
PlaneScratch<Real> contiguous(Real* data, Extents const& e) {
  return {data, std::int64_t(count_of(e)), {e[1] * e[2], e[2], 1}};
}

template <typename Real>
class Staging {
 public:
  using Plan = TransformedPlan<Real>;

  Staging(Problem const& problem, Plan const& plan) : p_(problem), plan_(plan), kernels_(transformed_kernels<Real>()) {}

  // Blocks of a causal axis: rows of the plane are neighbours in memory.
  static bool transposes(Plan const& plan) { return plan.arrangement == Arrangement::causal_blocks; }
  bool transposes() const { return transposes(plan_); }

  // The plane of a tensor that lies in memory as the staged plane would: the kernels work on it where it is. Null
  // elsewhere.
  template <typename View>
  auto in_place(View const& view, Dtype dtype, std::int64_t b, Channels channels) const {
    auto const& g = plan_.geometry.image;
    auto const& s = view.strides.spatial;
    using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>, Real const, Real>;
    bool const alike = plan_.arrangement == Arrangement::grid && !plan_.image_is_padded && channels.count == 1 &&
                       dtype == (sizeof(Real) == 4 ? FALTUNG_F32 : FALTUNG_F64) && g.pitch == g.columns &&
                       (g.columns == 1 || s[plan_.walk.axis[2]] == 1) &&
                       (g.middle == 1 || s[plan_.walk.axis[1]] == g.pitch) &&
                       (g.rows == 1 || s[plan_.walk.axis[0]] == g.middle * g.pitch);
    auto const offset = b * view.strides.batch + channels.first * view.strides.channel;
    return alike ? static_cast<Element*>(view.data) + offset : nullptr;
  }

  // Between an image in the order of the problem, [extents], and its plane. `middle`: of the middle axis, from the
  // first on.
  void line_to_plane(Real const* line, Extents const& extents, std::int64_t middle, Real* plane) const {
    if (plan_.image_is_padded || middle < plan_.geometry.image.middle) std::fill_n(plane, plan_.image_plane, Real(0));
    for_each_piece(middle, [&](Piece const& piece) {
      if (transposes())
        transpose_in(piece, line, extents, plane, plan_.geometry.image);
      else
        load_planes(at(line_tensor(line, extents), piece), piece.extents.data(), in_plane(piece, plane));
    });
  }
  void plane_to_line(Real const* plane, Extents const& extents, std::int64_t middle, Real* line) const {
    for_each_piece(middle, [&](Piece const& piece) {
      if (transposes())
        transpose_out(piece, plane, plan_.geometry.image, line, extents);
      else
        store_planes(in_plane(piece, const_cast<Real*>(plane)), piece.extents.data(),
                     at(line_tensor(line, extents), piece));
    });
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

 protected:
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

  Problem const& p_;
  Plan const& plan_;
  TransformedKernels<Real> const& kernels_;

  PlaneScratch<Real> in_plane(Piece const& piece, Real* plane) const {
    auto const& g = plan_.geometry.image;
    return {plane + piece.plane, std::int64_t(plan_.image_plane), {g.middle * g.pitch, g.pitch, 1}};
  }

 private:
  template <typename Body>
  void for_each_piece(std::int64_t middle, Body&& body) const {
    for (Piece piece : plan_.image) {
      piece.extents[1] = std::min(piece.extents[1], middle);
      body(piece);
    }
  }
  static PlaneTensor line_tensor(Real const* line, Extents const& e) {
    static constexpr std::int64_t first = 0;
    return {const_cast<Real*>(line), sizeof(Real) == 4 ? FALTUNG_F32 : FALTUNG_F64, 1, &first, {e[1] * e[2], e[2], 1}};
  }

  std::int64_t offsets_[most_lanes];
};

}  // namespace faltung::long_conv::cpu::transformed
