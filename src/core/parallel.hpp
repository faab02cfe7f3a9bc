// Threads: the caller's parallel_for where one was injected, else the library's own pool.
#pragma once
#include <cstdint>
#include <type_traits>

#include "faltung/faltung.h"

namespace faltung {

struct Parallel {
  faltung_parallel_for function = nullptr;  // null: the pool
  void* context = nullptr;
};

// Calls body(argument, begin, end) over a partition of [0, count); returns when all are done. An exception thrown by
// the body reaches the caller (one of them, if several threads threw).
void parallel_for(Parallel const&, std::int64_t count, faltung_body body, void* argument);

template <typename Body>
void parallel_for(Parallel const& parallel, std::int64_t count, Body&& body) {
  using Function = std::remove_reference_t<Body>;
  parallel_for(
      parallel, count,
      [](void* argument, std::int64_t begin, std::int64_t end) { (*static_cast<Function*>(argument))(begin, end); },
      const_cast<void*>(static_cast<void const*>(&body)));
}

void set_num_threads(int threads);  // 0: one per available processor
int num_threads();

}  // namespace faltung
