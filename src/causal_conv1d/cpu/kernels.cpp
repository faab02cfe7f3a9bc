// The kernels of the instruction set that this process uses.
#include "causal_conv1d/cpu/kernels.hpp"

#include "simd/target.hpp"

namespace faltung::causal_conv1d::cpu {

#if defined(FALTUNG_HAVE_X86_TARGETS)
#define FALTUNG_TARGETS(declare) declare(generic) declare(avx2) declare(avx512)
#define FALTUNG_SELECT(table) simd::select(generic::table, &avx2::table, &avx512::table)
#else
#define FALTUNG_TARGETS(declare) declare(generic)
#define FALTUNG_SELECT(table) \
  simd::select<std::remove_cvref_t<decltype(generic::table)>>(generic::table, nullptr, nullptr)
#endif

#define FALTUNG_DECLARE(target)                                             \
  namespace target {                                                        \
  extern ForwardKernels const forward_table;                                \
  extern StagingKernels const staging_table;                                \
  extern BackwardKernels const backward_table_double, backward_table_float; \
  }
FALTUNG_TARGETS(FALTUNG_DECLARE)

ForwardKernels const& forward_kernels() { return FALTUNG_SELECT(forward_table); }
BackwardKernels const& backward_kernels(Dtype real) {
  return real == FALTUNG_F64 ? FALTUNG_SELECT(backward_table_double) : FALTUNG_SELECT(backward_table_float);
}
StagingKernels const& staging_kernels() { return FALTUNG_SELECT(staging_table); }

}  // namespace faltung::causal_conv1d::cpu
