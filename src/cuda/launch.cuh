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
  // The kernel calls grid_wait_for_predecessor() before it touches global memory, so that it may start, and build what
  // it needs in shared memory, while the kernel before it on the stream ends. Taken from sm_90 on.
  bool starts_early = false;
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
  if (shape.starts_early && device_attribute<cudaDevAttrComputeCapabilityMajor>(0) >= 9) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = shape.stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, Kernel, arguments...), name);
    return;
  }
  Kernel<<<shape.grid, shape.threads, shape.shared_bytes, shape.stream>>>(arguments...);
  check(cudaGetLastError(), name);
}

}  // namespace faltung::cuda
