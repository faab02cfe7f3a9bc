// Kernels of cpu.direct. All three products (y, dx, dk) are one correlation, out[i] = sum over r of x[i + r] w[r],
// over three axes, done for one block of planes at a time: scratch is interleaved (planes.hpp), a lane is a plane, so
// no lane ever sees another image.
#pragma once
#include <cstdint>

#include "simd/target.hpp"

namespace faltung::long_conv::cpu {

// One tile of outputs times one tile of taps. Coordinates of x: out point i meets x point i + r for tap r. Only x in
// [real_begin, real_end) differs from 0; the box in memory, [box_begin, box_begin + box_extents), reaches `halo` beyond
// it where the tile does.
template <typename Real>
struct CorrelationTile {
  Real const* x;
  std::int64_t box_begin[3], box_extents[3], real_begin[3], real_end[3];
  Real const* w;                                     // [taps]
  std::int64_t taps[3], taps_begin[3], taps_end[3];  // only those in [begin, end) count
  Real* out;                                         // [outputs]
  std::int64_t outputs[3];
};

struct DirectFunctions {
  // How many zeros around the real points of an axis a block of outputs may touch.
  std::int64_t (*halo)(std::int64_t const* outputs, int axis);
  void (*correlate_float)(CorrelationTile<float> const&);
  void (*correlate_double)(CorrelationTile<double> const&);
  // total += part
  void (*add_float)(double* total, float const* part, std::int64_t count);
  void (*add_double)(double* total, double const* part, std::int64_t count);
  // total[lane] += sum over points of a[point][lane] b[point][lane]
  void (*dot_float)(double* total, float const* a, float const* b, std::int64_t points);
  void (*dot_double)(double* total, double const* a, double const* b, std::int64_t points);
};

namespace generic {
extern DirectFunctions const direct_functions;
}
#if defined(FALTUNG_HAVE_X86_TARGETS)
namespace avx2 {
extern DirectFunctions const direct_functions;
}
namespace avx512 {
extern DirectFunctions const direct_functions;
}
#endif

inline DirectFunctions const& direct_functions() {
#if defined(FALTUNG_HAVE_X86_TARGETS)
  return simd::select(generic::direct_functions, &avx2::direct_functions, &avx512::direct_functions);
#else
  return generic::direct_functions;
#endif
}

}  // namespace faltung::long_conv::cpu
