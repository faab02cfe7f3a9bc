// Tensor core vocabulary, sm_80 and up: one PTX instruction per function, named by who executes it. In all fragments
// below g = lane / 4 and t = lane % 4; a 32-bit register holds two neighbouring 16-bit elements, the lower index in the
// lower half.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace faltung::cuda {

// c [16 x 8] += a [16 x 16] b [16 x 8].
//   a[0], a[1]: rows g, g + 8 of columns 2t, 2t + 1; a[2], a[3]: the same rows of columns 2t + 8, 2t + 9
//   b0, b1:     column g of rows 2t, 2t + 1 and of rows 2t + 8, 2t + 9
//   c[0], c[1]: row g, columns 2t, 2t + 1; c[2], c[3]: row g + 8
template <typename Element>
__device__ __forceinline__ void warp_mma(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                         std::uint32_t a3, std::uint32_t b0, std::uint32_t b1);

template <>
__device__ __forceinline__ void warp_mma<__nv_bfloat16>(float (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                                        std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                                        std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void warp_mma<__half>(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                                 std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Lane and thread, read anew: what a phase derives from them is then not kept, or spilled, for the next turn of a loop.
__device__ __forceinline__ int thread_lane() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
__device__ __forceinline__ int thread_warp() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread / 32;
}

// What a warp keeps in shared memory is written by one lane, when all have read it and before any reads it again.
template <typename Write>
__device__ __forceinline__ void warp_write(Write const& write) {
  __syncwarp();
  if (thread_lane() == 0) write();
  __syncwarp();
}

__device__ __forceinline__ std::uint32_t shared_address(void const* pointer) {
  return std::uint32_t(__cvta_generic_to_shared(pointer));
}

// Volatile keeps these behind barriers; no memory clobber, so that loads of the next step may move before the products
// of this one. Matrices of 8 rows of 16 bytes; lane l gives the address of row l % 8 of matrix l / 8, and gets columns
// 2t, 2t + 1 of row g of each.
template <int count>
__device__ __forceinline__ void warp_load_matrices(std::uint32_t* to, std::uint32_t row) {
  static_assert(count == 2 || count == 4);
  if constexpr (count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(row));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row));
}

// Four matrices, each transposed: the lane gets rows 2t, 2t + 1 of column g.
__device__ __forceinline__ void warp_load_transposed(std::uint32_t* to, std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}

// An 8 x 8 matrix, columns 2t, 2t + 1 of row g per lane, transposed in registers.
__device__ __forceinline__ std::uint32_t warp_transpose(std::uint32_t row) {
  std::uint32_t column;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}

// 16 bytes from global to shared memory, past the registers.
__device__ __forceinline__ void thread_copy_async(void* to, void const* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void thread_wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Of copies in groups: all but the last `count` groups.
__device__ __forceinline__ void thread_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int count>
__device__ __forceinline__ void thread_wait_for_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
}

// Brings a line of global memory into L2.
__device__ __forceinline__ void thread_prefetch(void const* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

// Two floats rounded to one register.
template <typename Element>
__device__ __forceinline__ std::uint32_t pack(float low, float high);
template <>
__device__ __forceinline__ std::uint32_t pack<__nv_bfloat16>(float low, float high) {
  __nv_bfloat162 const pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}
template <>
__device__ __forceinline__ std::uint32_t pack<__half>(float low, float high) {
  __half2 const pair = __floats2half2_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}

__device__ __forceinline__ float widened(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widened(__half value) { return __half2float(value); }

template <typename Element>
__device__ __forceinline__ Element rounded(float value);
template <>
__device__ __forceinline__ __nv_bfloat16 rounded(float value) {
  return __float2bfloat16(value);
}
template <>
__device__ __forceinline__ __half rounded(float value) {
  return __float2half(value);
}

template <>
__device__ __forceinline__ float rounded(float value) {
  return value;
}

}  // namespace faltung::cuda
