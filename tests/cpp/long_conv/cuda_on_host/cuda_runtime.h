// CUDA for the host: enough of the language and of the runtime for kernels that need no more than barriers. Threads of
// a block are fibers that take turns and switch at __syncthreads(); memory of the device is memory of the host.
#pragma once
#include <cmath>
#include <cstring>

#include "cuda_runtime_api.h"

struct uint3 {
  unsigned x, y, z;
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
void __syncthreads();

inline void sincospi(double x, double* sine, double* cosine) {
  double const quarters = std::nearbyint(2 * x), rest = (x - quarters / 2) * 3.141592653589793238;
  double const s = std::sin(rest), c = std::cos(rest);
  int const turn = int(std::fmod(quarters, 4)) & 3;
  *sine = turn == 0 ? s : turn == 1 ? c : turn == 2 ? -s : -c;
  *cosine = turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s;
}

// Dynamic shared memory, which a kernel declares as an extern array of its own namespace. What lies behind the bytes
// that a launch asks for is watched.
inline constexpr std::size_t most_shared_bytes = 227 * 1024;
struct WatchedMemory {
  explicit WatchedMemory(unsigned char* memory);
};
#define SHARED_MEMORY(linkage)                                   \
  linkage __align__(16) unsigned char shared[most_shared_bytes]; \
  linkage WatchedMemory const watched(shared);

namespace faltung::long_conv::cuda {
namespace {
SHARED_MEMORY([[maybe_unused]])
}
namespace transformed {
namespace {
SHARED_MEMORY([[maybe_unused]])
}
}  // namespace transformed
namespace direct {
SHARED_MEMORY(inline)
namespace {
SHARED_MEMORY([[maybe_unused]])
}
}  // namespace direct
}  // namespace faltung::long_conv::cuda
