// What the tuned kernels ask of a call: widths 2 to 4 (2 to 8 where tokens lie side by side), at most 32 bits, and
// tensors whose unit axis can be read 16 bytes at a time. Everything else goes to the kernels for anything.
#pragma once
#include <cstdint>

#include "causal_conv1d/problem.hpp"
#include "core/dtype.hpp"

namespace faltung::causal_conv1d::cuda {

inline constexpr int tuned_width = 4, tuned_width_along_time = 8;

inline bool tuned(Problem const& p, int most = tuned_width) {
  return p.width >= 2 && p.width <= most && p.x_dtype != FALTUNG_F64;
}

inline bool is_multiple(std::int64_t value, std::int64_t of) { return value % of == 0; }
inline bool is_aligned(void const* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % std::uintptr_t(bytes) == 0;
}

// `count` channels side by side at a time, with a distance between tokens that fits an int.
inline bool vectors_along_channels(Problem const& p, ConstView const& view, std::int64_t count) {
  auto const pitch = view.strides.time;
  return is_multiple(p.channels, count) && view.strides.channel == 1 &&
         is_aligned(view.data, count * size_of(p.x_dtype)) &&
         (p.batch == 1 || is_multiple(view.strides.batch, count)) &&
         (p.time == 1 || (is_multiple(pitch, count) && pitch <= INT32_MAX && pitch >= INT32_MIN));
}

// Rows whose whole length can be read so.
inline bool vectors_along_time(Problem const& p, ConstView const& view) {
  std::int64_t const n = 16 / size_of(p.x_dtype);
  return is_multiple(p.time, n) && view.strides.time == 1 && is_aligned(view.data, 16) &&
         (p.batch == 1 || is_multiple(view.strides.batch, n)) &&
         (p.channels == 1 || is_multiple(view.strides.channel, n));
}

}  // namespace faltung::causal_conv1d::cuda
