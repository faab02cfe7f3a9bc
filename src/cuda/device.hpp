// Host side of CUDA that needs no CUDA compiler: errors become Failure, the device of a call is made current, facts
// about it are cached.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "core/error.hpp"

namespace faltung::cuda {

inline void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) [[likely]]
    return;
  fail(error == cudaErrorMemoryAllocation ? FALTUNG_OUT_OF_MEMORY : FALTUNG_RUNTIME_ERROR, what, ": ",
       cudaGetErrorName(error), ", ", cudaGetErrorString(error));
}

// Makes a device current for a scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    if (previous_ == device) return;
    check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  ~CurrentDevice() {
    if (changed_) cudaSetDevice(previous_);
  }
  CurrentDevice(CurrentDevice const&) = delete;
  CurrentDevice& operator=(CurrentDevice const&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

// An attribute of the current device, asked for once per device; `without` where there is no device, so that a choice
// can be explained on a machine without a GPU.
template <cudaDeviceAttr attribute>
int device_attribute(int without) {
  constexpr int known_devices = 64;
  static std::atomic<int> cached[known_devices];
  int device = 0, value = 0;
  if (cudaGetDevice(&device) == cudaSuccess) {
    if (device < known_devices && (value = cached[device].load(std::memory_order_relaxed))) return value;
    if (cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess) {
      if (device < known_devices) cached[device].store(value, std::memory_order_relaxed);
      return value;
    }
  }
  cudaGetLastError();
  return without;
}

// Bytes of shared memory that one block may ask for; without a device those of the smallest supported ones.
inline int shared_memory_budget() { return device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>(99 * 1024); }

inline int multiprocessors() { return device_attribute<cudaDevAttrMultiProcessorCount>(1); }

}  // namespace faltung::cuda
