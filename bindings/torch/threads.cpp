// torch's threads for who calls the C ABI beside torch: the parallel_for of python/faltung/_causal_conv1d_prepared.py.
#include "parallel.hpp"

extern "C" FALTUNG_API void faltung_torch_threads(void* context, int64_t count, faltung_body body, void* argument) {
  faltung::torch_binding::torch_threads(context, count, body, argument);
}
