// Which instruction set the kernels of this process use. Kernel sources (*.simd.cpp) are compiled once per target, in
// a namespace of that name, and export one table of functions each.
#pragma once

namespace faltung::simd {

enum class Target { generic, avx2, avx512 };  // generic: SSE2 on x86-64, NEON on AArch64

// The best that the processor has and the build contains; FALTUNG_SIMD=generic|avx2|avx512 in the environment lowers
// it.
Target target();
char const* name_of(Target);

// The entry of a per-target table.
template <typename Table>
Table const& select(Table const& generic, [[maybe_unused]] Table const* avx2, [[maybe_unused]] Table const* avx512) {
  if (target() == Target::avx512 && avx512) return *avx512;
  if (target() >= Target::avx2 && avx2) return *avx2;
  return generic;
}

}  // namespace faltung::simd
