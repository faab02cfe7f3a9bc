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

// Shared memory that one block may ask for on the current device; the smallest of the supported devices where there is
// none, so that a choice can be explained without a GPU.
inline int shared_memory_budget() {
  constexpr int smallest = 99 * 1024, known_devices = 64;
  static std::atomic<int> cached[known_devices];
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    cudaGetLastError();
    return smallest;
  }
  if (device < known_devices && (bytes = cached[device].load(std::memory_order_relaxed))) return bytes;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    cudaGetLastError();
    return smallest;
  }
  if (device < known_devices) cached[device].store(bytes, std::memory_order_relaxed);
  return bytes;
}

}  // namespace faltung::cuda
