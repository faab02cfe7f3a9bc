// CPU threads of an operator are torch's own, so that torch.set_num_threads is obeyed and nested regions stay serial.
#pragma once
#include <torch/csrc/stable/library.h>

#include "faltung/faltung.h"

namespace faltung::torch_binding {

// A faltung_parallel_for.
inline void torch_threads(void*, int64_t count, faltung_body body, void* argument) {
  struct Task {
    faltung_body body;
    void* argument;
  } task{body, argument};
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(
      0, count, 1,
      [](int64_t begin, int64_t end, void* context) {
        auto const& t = *static_cast<Task*>(context);
        t.body(t.argument, begin, end);
      },
      &task));
}

}  // namespace faltung::torch_binding
