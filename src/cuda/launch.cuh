// The one place that launches kernels: an error becomes Failure, and a kernel's limit of dynamic shared memory is
// raised once per device, which is legal during stream capture.
#pragma once
#include "cuda/device.hpp"

namespace faltung::cuda {

struct LaunchShape {
  dim3 grid;
  unsigned threads;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Kernel is a template argument so that each has its own record of the devices on which it is prepared.
template <auto Kernel, typename... Arguments>
void launch(char const* name, LaunchShape const& shape, Arguments const&... arguments) {
  static std::atomic<std::uint64_t> prepared{0};
  if (shape.shared_bytes > 48 * 1024) {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    std::uint64_t const bit = std::uint64_t(1) << (device & 63);
    if (device > 63 || !(prepared.load(std::memory_order_acquire) & bit)) {
      cudaFuncAttributes attributes;
      check(cudaFuncGetAttributes(&attributes, Kernel), name);
      check(cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 shared_memory_budget() - int(attributes.sharedSizeBytes)),
            name);
      prepared.fetch_or(bit, std::memory_order_release);
    }
  }
  Kernel<<<shape.grid, shape.threads, shape.shared_bytes, shape.stream>>>(arguments...);
  check(cudaGetLastError(), name);
}

}  // namespace faltung::cuda
