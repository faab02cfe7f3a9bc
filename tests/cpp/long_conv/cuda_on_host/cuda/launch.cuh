// In place of src/cuda/launch.cuh: runs a grid on the host, block after block.
#pragma once
#include <functional>

#include "cuda/device.hpp"
#include "cuda_runtime.h"

namespace faltung::cuda {

struct LaunchShape {
  dim3 grid;
  unsigned threads;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool starts_early = false;
};

void run_on_host(char const* name, LaunchShape const& shape, std::function<void()> const& thread);

template <auto Kernel, typename... Arguments>
void launch(char const* name, LaunchShape const& shape, Arguments const&... arguments) {
  run_on_host(name, shape, [&] { Kernel(arguments...); });
}

}  // namespace faltung::cuda
