// Runs the package that package.py makes, in a process without Python:
//   run FOLDER cpu|cuda LIBFALTUNG_TORCH [LIBFALTUNG_TORCH_CUDA]
// The package calls the operators by name, so their libraries have to be loaded before: they register them with torch.
// One made for CUDA needs both. With T the folder of the installed torch (python -c 'import torch;
// print(torch.__path__[0])'):
//   c++ -std=c++20 -isystem $T/include -isystem $T/include/torch/csrc/api/include run.cpp -o run -L$T/lib
//   -Wl,-rpath,$T/lib
//     -Wl,--no-as-needed -ltorch_cpu -lc10 -ldl (for CUDA also -ltorch_cuda -lc10_cuda)
// Prints the largest difference from the output that Python wrote, and exits 1 where that is more than rounding.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

at::Tensor read(std::string const& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto const bytes = file.tellg();
  auto tensor = at::empty({std::int64_t(bytes) / (4 * 6 * 40), 6, 40});  // [batch, channels, time]
  file.seekg(0).read(static_cast<char*>(tensor.data_ptr()), bytes);
  return tensor;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return std::fprintf(stderr, "usage: %s FOLDER cpu|cuda LIBRARY...\n", arguments[0]), 2;
  std::string const folder = arguments[1];
  at::Device const device(arguments[2]);
  for (int i = 3; i < count; ++i)
    if (!dlopen(arguments[i], RTLD_NOW)) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  torch::inductor::AOTIModelPackageLoader model(folder + "/model.pt2");

  auto const x = read(folder + "/input.bin").to(device), expected = read(folder + "/expected.bin").to(device);
  std::vector<at::Tensor> const outputs = model.run({x});
  auto const difference = (outputs.at(0) - expected).abs().max().item<double>();
  std::printf("batch %ld: largest difference %.1e\n", long(x.size(0)), difference);

  // Another batch than the model was exported with: samples do not depend on each other, bit for bit.
  auto const first = model.run({x.slice(0, 0, 1).contiguous()}).at(0);
  bool const same = at::equal(first, outputs[0].slice(0, 0, 1));
  std::printf("batch 1: %s\n", same ? "the same bits" : "OTHER BITS");
  return difference < 1e-5 && same ? 0 : 1;
}
