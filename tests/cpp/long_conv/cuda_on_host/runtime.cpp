// Fibers for the threads of a block, and the runtime's functions. A thread runs until its next barrier; the order of
// threads alternates from one stretch to the next, so that a kernel that lacks a barrier gives other results.
#include <ucontext.h>

#include <cstring>
#include <memory>
#include <vector>

#include "cuda/launch.cuh"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

constexpr std::size_t stack_bytes = 128 * 1024;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool ended;
};
std::vector<Fiber> fibers;
ucontext_t scheduler;
Fiber* current;
std::function<void()> const* body;

void run_fiber() {
  (*body)();
  current->ended = true;
  swapcontext(&current->context, &scheduler);
}

void run_block(unsigned threads) {
  while (fibers.size() < threads) fibers.push_back({{}, std::unique_ptr<char[]>(new char[stack_bytes]), true});
  for (unsigned i = 0; i < threads; ++i) {
    auto& fiber = fibers[i];
    fiber.ended = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = stack_bytes};
    makecontext(&fiber.context, run_fiber, 0);
  }
  bool left = true;
  for (int stretch = 0; left; ++stretch) {
    left = false;
    for (unsigned i = 0; i < threads; ++i) {
      unsigned const at = stretch % 2 ? threads - 1 - i : i;
      current = &fibers[at];
      if (current->ended) continue;
      threadIdx = {at, 0, 0};
      swapcontext(&scheduler, &current->context);
      left |= !current->ended;
    }
  }
}

// Of every translation unit; there before main().
std::vector<unsigned char*>& watched_memory() {
  static std::vector<unsigned char*> all;
  return all;
}
constexpr unsigned char untouched = 0xa5;

}  // namespace

WatchedMemory::WatchedMemory(unsigned char* memory) { watched_memory().push_back(memory); }

void __syncthreads() { swapcontext(&current->context, &scheduler); }

namespace faltung::cuda {

void run_on_host(char const* name, LaunchShape const& shape, std::function<void()> const& thread) {
  if (shape.threads == 0 || shape.threads > 1024 || shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.y > 65535)
    fail(FALTUNG_RUNTIME_ERROR, name, ": a launch of ", shape.threads, " threads, grid ", shape.grid.x, " x ",
         shape.grid.y);
  if (shape.shared_bytes > most_shared_bytes)
    fail(FALTUNG_RUNTIME_ERROR, name, ": ", shape.shared_bytes, " bytes of shared memory");
  for (auto* memory : watched_memory())
    std::memset(memory + shape.shared_bytes, untouched, most_shared_bytes - shape.shared_bytes);
  body = &thread;
  blockDim = dim3(shape.threads);
  gridDim = shape.grid;
  for (unsigned y = 0; y < shape.grid.y; ++y)
    for (unsigned x = 0; x < shape.grid.x; ++x) {
      blockIdx = {x, y, 0};
      run_block(shape.threads);
    }
  for (auto const* memory : watched_memory())
    for (std::size_t i = shape.shared_bytes; i < most_shared_bytes; ++i)
      if (memory[i] != untouched)
        fail(FALTUNG_RUNTIME_ERROR, name, ": wrote byte ", i, " of ", shape.shared_bytes, " of shared memory");
}

}  // namespace faltung::cuda

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount            ? 4
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 * 1024
                                                                  : 9;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
char const* cudaGetErrorName(cudaError_t) { return "cudaError"; }
char const* cudaGetErrorString(cudaError_t) { return "an error of the CUDA runtime"; }
