// A call's device and stream on CUDA: those of torch at that moment, so that streams, devices and graph capture are the caller's.
#pragma once
#include <torch/csrc/stable/accelerator.h>

#include "launch.hpp"
#include "tensor.hpp"

namespace faltung::torch_binding {

// Makes the device of a tensor current while it lives.
class CudaLaunch {
 public:
  explicit CudaLaunch(Tensor const& on) : guard_(on.get_device_index()) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(on.get_device_index(), &launch_.stream));
  }
  operator Launch const&() const { return launch_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  Launch launch_;
};

}  // namespace faltung::torch_binding
