// torch tensors as faltung_tensor views, and fresh outputs with the strides of torch.empty_like. Shared by every operator and device.
#pragma once
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "faltung/faltung.h"
#include "status.hpp"

namespace faltung::torch_binding {

using torch::stable::Tensor;
using OptionalTensor = std::optional<Tensor>;

// torch's name of a dtype, as in torch.<name>.
inline std::string dtype_name(int32_t dtype) {
  struct Entry {
    int32_t dtype;
    char const* name;
  };
  static Entry const names[] = {{aoti_torch_dtype_uint8(), "uint8"},         {aoti_torch_dtype_int8(), "int8"},
                                {aoti_torch_dtype_int16(), "int16"},         {aoti_torch_dtype_bool(), "bool"},
                                {aoti_torch_dtype_complex32(), "complex32"}, {aoti_torch_dtype_complex64(), "complex64"},
                                {aoti_torch_dtype_complex128(), "complex128"}};
  for (auto const& entry : names)
    if (entry.dtype == dtype) return entry.name;
  return "torch's dtype number " + std::to_string(dtype);
}

inline faltung_dtype dtype_of(int32_t dtype, char const* name) {
  static std::array<int32_t, 6> const known = {aoti_torch_dtype_float64(),  aoti_torch_dtype_float32(), aoti_torch_dtype_float16(),
                                               aoti_torch_dtype_bfloat16(), aoti_torch_dtype_int32(),   aoti_torch_dtype_int64()};
  for (std::size_t i = 0; i < known.size(); ++i)  // in the order of faltung_dtype
    if (known[i] == dtype) return faltung_dtype(i);
  fail(FALTUNG_INVALID_TYPE, std::string(name) + ": expected a floating dtype, got " + dtype_name(dtype));
}

// Everything but the data.
inline faltung_tensor shape_of(Tensor const& tensor, char const* name) {
  auto const handle = tensor.get();
  int64_t rank, *sizes, *strides;
  int32_t dtype, device, index;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(handle, &rank));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(handle, &sizes));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(handle, &strides));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(handle, &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(handle, &device));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(handle, &index));
  if (rank > FALTUNG_MAX_RANK)
    fail(FALTUNG_INVALID_ARGUMENT, std::string(name) + ": expected at most " + std::to_string(int(FALTUNG_MAX_RANK)) +
                                       " axes, got " + std::to_string(rank));
  static int32_t const cuda = aoti_torch_device_type_cuda();
  faltung_tensor view{.data = nullptr, .dtype = dtype_of(dtype, name), .device = device == cuda ? FALTUNG_CUDA : FALTUNG_CPU,
                      .device_index = device == cuda ? index : 0, .rank = int32_t(rank), .shape = {}, .strides = {}};
  std::copy_n(sizes, rank, view.shape);
  std::copy_n(strides, rank, view.strides);
  return view;
}

inline faltung_tensor input_view(Tensor const& tensor, char const* name) {
  auto view = shape_of(tensor, name);
  void const* data;
  TORCH_ERROR_CODE_CHECK(torch_get_const_data_ptr(tensor.get(), &data));
  view.data = const_cast<void*>(data);
  return view;
}

inline faltung_tensor output_view(Tensor const& tensor, char const* name) {
  auto view = shape_of(tensor, name);
  TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(tensor.get(), &view.data));
  return view;
}

inline std::optional<faltung_tensor> input_view(OptionalTensor const& tensor, char const* name) {
  return tensor ? std::optional(input_view(*tensor, name)) : std::nullopt;
}

inline std::optional<faltung_tensor> output_view(OptionalTensor const& tensor, char const* name) {
  return tensor ? std::optional(output_view(*tensor, name)) : std::nullopt;
}

template <typename T>
T* pointer(std::optional<T>& value) {
  return value ? &*value : nullptr;
}

// A fresh tensor of the dtype and device of `like`.
inline Tensor empty_strided(Tensor const& like, int64_t rank, int64_t const* sizes, int64_t const* strides) {
  int32_t dtype, device, index;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &index));
  AtenTensorHandle result;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(rank, sizes, strides, dtype, device, index, &result));
  return Tensor(result);
}

// What stands for a gradient that nobody asked for: shape [0].
inline Tensor nothing(Tensor const& like) {
  int64_t const size = 0, stride = 1;
  return empty_strided(like, 1, &size, &stride);
}

// Whether the elements fill one block of memory without gaps or overlap, in some order of the axes.
inline bool is_dense(int64_t rank, int64_t const* sizes, int64_t const* strides) {
  if (rank > FALTUNG_MAX_RANK) return false;
  std::array<int64_t, FALTUNG_MAX_RANK> order;  // axes that count, by ascending stride
  int64_t count = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0) return true;  // as torch has it, whatever the strides
    if (sizes[i] == 1) continue;
    int64_t at = count++;
    for (; at > 0 && strides[order[at - 1]] > strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  int64_t expected = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (strides[order[i]] != expected) return false;
    expected *= sizes[order[i]];
  }
  return true;
}

// torch.empty_like with the default preserve_format, strides included. A dense tensor keeps its strides (no trip through
// torch's dispatcher, which takes about a microsecond); for any other torch infers them.
inline Tensor fresh_like(Tensor const& like) {
  int64_t rank, *sizes, *strides;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(like.get(), &rank));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(like.get(), &sizes));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(like.get(), &strides));
  if (is_dense(rank, sizes, strides)) return empty_strided(like, rank, sizes, strides);
  return torch::stable::empty_like(like);
}

// `bytes` of uninitialised memory on the device of `like`, aligned as the C ABI asks; kept alive by this object.
class Workspace {
 public:
  Workspace(Tensor const& like, std::size_t bytes) {
    if (bytes == 0) return;
    constexpr std::size_t alignment = 256;
    int32_t device, index;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &index));
    int64_t const size = int64_t(bytes + alignment), stride = 1;
    AtenTensorHandle handle;
    TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, &size, &stride, aoti_torch_dtype_uint8(), device, index, &handle));
    memory_.emplace(handle);
    auto const address = reinterpret_cast<std::uintptr_t>(memory_->mutable_data_ptr());
    data_ = reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
  }
  void* data() const { return data_; }

 private:
  OptionalTensor memory_;
  void* data_ = nullptr;
};

}  // namespace faltung::torch_binding
