// A copy past the registers that may be of zeros instead; the others, and how they are waited for, are in mma.cuh.
#pragma once
#include "cuda/mma.cuh"

namespace faltung::cuda {

// 16 bytes from global to shared memory where `wanted`, else zeros, whatever the address.
__device__ __forceinline__ void thread_copy_or_zero(void* to, void const* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(wanted ? 16 : 0)
               : "memory");
}

}  // namespace faltung::cuda
