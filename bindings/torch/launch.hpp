// What differs between the devices of an operator: threads on the CPU, a stream on CUDA.
#pragma once
#include "faltung/faltung.h"

namespace faltung::torch_binding {

struct Launch {
  faltung_parallel_for parallel_for = nullptr;
  void* stream = nullptr;
};

}  // namespace faltung::torch_binding
