// Memory for one task on one thread: aligned, uninitialised, kept by the thread between calls up to a bound, so that a
// steady stream of calls neither allocates nor touches fresh pages.
#pragma once
#include <cstddef>
#include <new>

namespace faltung {

inline constexpr std::size_t scratch_alignment = 128;     // two cache lines: no false sharing by adjacent-line prefetch
inline constexpr std::size_t scratch_kept = 32ull << 20;  // bytes a thread keeps at most

class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;

  // Next `count` elements, aligned.
  template <typename T>
  T* take(std::size_t count) {
    T* const result = reinterpret_cast<T*>(base_ + used_);
    used_ += padded<T>(count);
    return result;
  }
  // What take<T>(count) uses up; the sum over all takes is the size to ask for.
  template <typename T>
  static constexpr std::size_t padded(std::size_t count) {
    return (count * sizeof(T) + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t bytes_, used_ = 0;
};

}  // namespace faltung
