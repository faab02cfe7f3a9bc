// Overlap of a kernel's start with the end of the one before it on the stream; nothing below sm_90.
#pragma once
#include <nv/target>

namespace faltung::cuda {

// Returns when the kernels before this one have ended and what they wrote can be seen.
__device__ __forceinline__ void grid_wait_for_predecessor() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}

// Lets the next kernel start as soon as there is room.
__device__ __forceinline__ void grid_release_successor() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;" ::: "memory");))
}

}  // namespace faltung::cuda
