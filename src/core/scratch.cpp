#include "core/scratch.hpp"

#include <utility>

namespace faltung {
namespace {

void release(std::byte* memory) { ::operator delete (memory, std::align_val_t{scratch_alignment}); }

// One block a thread keeps. A nested Scratch finds it taken and allocates its own.
struct Kept {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  ~Kept() { release(memory); }
};

thread_local Kept kept;

}  // namespace

Scratch::Scratch(std::size_t bytes) : base_(nullptr), bytes_(bytes) {
  if (kept.memory && kept.bytes >= bytes) {
    base_ = std::exchange(kept.memory, nullptr);
    bytes_ = std::exchange(kept.bytes, 0);
  } else {
    base_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{scratch_alignment}));
  }
}

Scratch::~Scratch() {
  if (bytes_ <= scratch_kept && bytes_ > kept.bytes) {
    release(kept.memory);
    kept.memory = base_;
    kept.bytes = bytes_;
  } else {
    release(base_);
  }
}

}  // namespace faltung
