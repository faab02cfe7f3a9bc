// Rows of tokens on their way to shared memory, for a warp that walks along them: `Groups` groups of `Group` tokens are
// asked for ahead of the one that is computed. They hold neither registers nor scoreboards, of which a warp has six.
#pragma once
#include "causal_conv1d/cuda/vector.cuh"

namespace faltung::causal_conv1d::cuda {

// 16 or 8 bytes from global to shared memory, past the registers.
__device__ __forceinline__ void thread_copy_16(std::uint32_t to, void const* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void thread_copy_8(std::uint32_t to, void const* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
// What was asked for since the last call is a group.
__device__ __forceinline__ void thread_end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All groups but the last `Pending` have arrived.
template <int Pending>
__device__ __forceinline__ void thread_wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// The rows of one tensor, of which a lane owns `Channels`, 8 or 16 bytes. It asks for 16 bytes, its own or its and its
// neighbour's; where these are not aligned, for its own 8. Lanes beyond the last channel meet the last ones again.
template <typename Storage, int Channels, int Group, int Groups>
class Rows {
  static constexpr int row_bytes = 32 * Channels * int(sizeof(Storage));

 public:
  static constexpr int bytes = Groups * Group * row_bytes;
  static constexpr bool own = Channels * sizeof(Storage) == 16;  // a lane reads what it asked for itself

  // Of the lane, of the warp's `channels`, which are a multiple of 16 bytes where `wide`, else of 8.
  static __device__ __forceinline__ int thread_channel(int channels, bool wide) {
    int const lane = threadIdx.x % 32, n = own || !wide ? Channels : 2 * Channels, c = lane * Channels;
    return c < channels ? c : channels - n + c % n;
  }

  // from: token 0 of the walk at the warp's first channel.
  __device__ __forceinline__ Rows(std::byte* memory, Storage const* from, std::int64_t pitch, int channels, bool wide)
      : pitch_(int(pitch)), wide_(own || wide) {
    int const lane = threadIdx.x % 32;
    auto const start = std::uint32_t(__cvta_generic_to_shared(memory));
    mine_ = memory + lane * Channels * int(sizeof(Storage));
    if (wide_) {
      constexpr int elements = int(16 / sizeof(Storage));
      int const at = lane % chunks * elements;
      from_ = from + (lane / chunks) * pitch + (at < channels ? at : channels - elements);
      to_ = start + lane * 16;
    } else {
      from_ = from + thread_channel(channels, false);
      to_ = start + lane * 8;
    }
  }

  // Asks for the next group of the walk, 16 bytes at a time.
  __device__ __forceinline__ void warp_ask(int slot) {
    auto const to = to_ + slot * (Group * row_bytes);
#pragma unroll
    for (int i = 0; i < Group; i += abreast) thread_copy_16(to + i * row_bytes, from_ + std::int64_t(i) * pitch_);
    from_ += std::int64_t(Group) * pitch_;
  }
  // For what lies before the end of the walk, `left` tokens on, and for 8 bytes.
  __device__ __forceinline__ void warp_ask(int slot, int left) {
    auto const to = to_ + slot * (Group * row_bytes);
    left -= wide_ ? int(threadIdx.x % 32) / chunks : 0;
#pragma unroll 1
    for (int i = 0; i < Group && i < left; i += wide_ ? abreast : 1)
      if (wide_)
        thread_copy_16(to + i * row_bytes, from_ + std::int64_t(i) * pitch_);
      else
        thread_copy_8(to + i * row_bytes, from_ + std::int64_t(i) * pitch_);
    from_ += std::int64_t(Group) * pitch_;
  }

  // The lane's channels of token i of a group, for which all lanes have waited.
  __device__ __forceinline__ Words<Storage, Channels> thread_read(int slot, int i) const {
    return *reinterpret_cast<Words<Storage, Channels> const*>(mine_ + (slot * Group + i) * row_bytes);
  }

 private:
  static constexpr int chunks = row_bytes / 16, abreast = 32 / chunks;  // lanes of a row, rows at a time
  static_assert(Group % abreast == 0);
  Storage const* from_;
  std::byte const* mine_;
  std::uint32_t to_;
  int pitch_;
  bool wide_;
};

}  // namespace faltung::causal_conv1d::cuda
