// Stands for libtorch_cuda.so at link time alone, so that libfaltung_torch_cuda names it as needed though it may be built with a torch
// for the CPU. Never installed, never loaded: a process that has imported a CUDA torch has the real one under this name.
extern "C" __attribute__((visibility("default"))) int aoti_torch_get_current_cuda_stream(int, void**) { return 1; }
