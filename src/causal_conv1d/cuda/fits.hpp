// What the tuned kernels ask of a call: widths 2 to 4, at most 32 bits, and tensors whose unit axis can be read 16
// bytes at a time. Everything else goes to the kernels for anything.
#pragma once
#include <cstdint>

#include "causal_conv1d/problem.hpp"
#include "core/dtype.hpp"

namespace faltung::causal_conv1d::cuda {

inline bool tuned(Problem const& p) { return p.width >= 2 && p.width <= 4 && p.x_dtype != FALTUNG_F64; }

inline bool is_multiple(std::int64_t value, std::int64_t of) { return value % of == 0; }

inline bool vectors_along_channels(Problem const& p, ConstView const& view) {
  std::int64_t const n = 16 / size_of(p.x_dtype);
  return is_multiple(p.channels, n) && view.strides.channel == 1 &&
         is_multiple(std::int64_t(reinterpret_cast<std::uintptr_t>(view.data)), 16) &&
         (p.batch == 1 || is_multiple(view.strides.batch, n)) && (p.time == 1 || is_multiple(view.strides.time, n));
}

// Rows whose whole length can be read so.
inline bool vectors_along_time(Problem const& p, ConstView const& view) {
  std::int64_t const n = 16 / size_of(p.x_dtype);
  return is_multiple(p.time, n) && view.strides.time == 1 &&
         is_multiple(std::int64_t(reinterpret_cast<std::uintptr_t>(view.data)), 16) &&
         (p.batch == 1 || is_multiple(view.strides.batch, n)) &&
         (p.channels == 1 || is_multiple(view.strides.channel, n));
}

}  // namespace faltung::causal_conv1d::cuda
