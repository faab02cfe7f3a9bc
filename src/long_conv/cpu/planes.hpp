// Blocks of planes between tensors of any dtype and strides and contiguous scratch in the arithmetic type (float, or
// double for fp64). A plane is one (sample, channel) of up to three spatial axes; a block has at most as many planes as
// a register has lanes. In scratch a block is either *interleaved* (plane_pitch 1: a register holds one point of every
// plane) or *separate* (pitches[2] 1: a register holds neighbours of one plane). Fast where the tensor has unit stride
// along the innermost axis (of either sign) or over the planes; squares are transposed in registers where the two sides
// differ.
#pragma once
#include <cstdint>

#include "core/dtype.hpp"
#include "simd/target.hpp"

namespace faltung::long_conv::cpu {

inline constexpr int most_lanes = 16;

// Points i of plane l lie at data + offsets[l] + i0 strides[0] + i1 strides[1] + i2 strides[2], in elements.
struct PlaneTensor {
  void* data;  // only read by load_planes
  Dtype dtype;
  int planes;  // 1 .. lanes
  std::int64_t const* offsets;
  std::int64_t strides[3];
};

template <typename Real>
struct PlaneScratch {
  Real* data;
  std::int64_t plane_pitch;  // 1: interleaved, all lanes of a point are written, those without a plane as 0
  std::int64_t pitches[3];   // pitches[2] == 1: separate
};

// Added before the one rounding: factors[l] x[l].
template <typename Real>
struct PlaneShortcut {
  Real const* factors = nullptr;  // [lanes], whatever the number of planes; null: none
  PlaneTensor x = {};
};

struct PlaneFunctions {
  int float_lanes, double_lanes;
  void (*load_float)(PlaneTensor const&, std::int64_t const* extents, PlaneScratch<float> const&);
  void (*load_double)(PlaneTensor const&, std::int64_t const* extents, PlaneScratch<double> const&);
  void (*store_float)(PlaneScratch<float> const&, std::int64_t const* extents, PlaneTensor const&,
                      PlaneShortcut<float> const&);
  void (*store_double)(PlaneScratch<double> const&, std::int64_t const* extents, PlaneTensor const&,
                       PlaneShortcut<double> const&);
};

namespace generic {
extern PlaneFunctions const plane_functions;
}
#if defined(FALTUNG_HAVE_X86_TARGETS)
namespace avx2 {
extern PlaneFunctions const plane_functions;
}
namespace avx512 {
extern PlaneFunctions const plane_functions;
}
#endif

inline PlaneFunctions const& plane_functions() {
#if defined(FALTUNG_HAVE_X86_TARGETS)
  return simd::select(generic::plane_functions, &avx2::plane_functions, &avx512::plane_functions);
#else
  return generic::plane_functions;
#endif
}

// scratch[i] = tensor[i] for i < extents[3].
inline void load_planes(PlaneTensor const& from, std::int64_t const* extents, PlaneScratch<float> const& to) {
  plane_functions().load_float(from, extents, to);
}
inline void load_planes(PlaneTensor const& from, std::int64_t const* extents, PlaneScratch<double> const& to) {
  plane_functions().load_double(from, extents, to);
}

// tensor[i] = scratch[i] + shortcut x[i], in one rounding to the tensor's dtype. x has the dtype and number of planes
// of the tensor.
inline void store_planes(PlaneScratch<float> const& from, std::int64_t const* extents, PlaneTensor const& to,
                         PlaneShortcut<float> const& shortcut = {}) {
  plane_functions().store_float(from, extents, to, shortcut);
}
inline void store_planes(PlaneScratch<double> const& from, std::int64_t const* extents, PlaneTensor const& to,
                         PlaneShortcut<double> const& shortcut = {}) {
  plane_functions().store_double(from, extents, to, shortcut);
}

}  // namespace faltung::long_conv::cpu
