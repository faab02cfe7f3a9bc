// Copies to shared memory that pass the registers, in batches; stores of 16 bytes; a barrier for a part of a block.
#pragma once
#include "cuda/mma.cuh"

namespace faltung::long_conv::cuda::spectral_passes {

// 16 bytes; zeros where there is nothing to copy (`from` is then not read, but has to be an address).
__device__ __forceinline__ void thread_copy_or_clear(void* to, void const* from, bool copies) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(faltung::cuda::shared_address(to)), "l"(from),
               "r"(copies ? 16 : 0)
               : "memory");
}
// What the thread has copied so far is a batch of its own.
__device__ __forceinline__ void thread_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Returns when all but the last `pending` batches have arrived.
template <int pending>
__device__ __forceinline__ void thread_wait_for_batches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// 16 bytes to global memory in one instruction, which nvcc does not always make of a store of uint4.
__device__ __forceinline__ void thread_store_words(void* to, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                   std::uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Of `threads` threads that name the same barrier, 1 to 15.
__device__ __forceinline__ void team_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace faltung::long_conv::cuda::spectral_passes
