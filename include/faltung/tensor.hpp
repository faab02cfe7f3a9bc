// Views of the caller's memory for every operator: a pointer, a shape, and strides in elements (any sign, zero
// included).
//
//   std::vector<float> x(2 * 3 * 32 * 32);
//   auto const view = faltung::view(x.data(), {2, 3, 32, 32});
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#if __has_include(<stdfloat>)
#include <stdfloat>
#endif

#include "faltung/error.hpp"
#include "faltung/float16.hpp"

namespace faltung {

using Tensor = faltung_tensor;

// The dtype of an element type. A 16-bit type of another library joins in with
//   template <> inline constexpr faltung_dtype faltung::dtype_of<c10::BFloat16> = FALTUNG_BF16;
template <typename T>
inline constexpr faltung_dtype dtype_of = [] {
  static_assert(sizeof(T) == 0, "specialise faltung::dtype_of for this element type");
  return FALTUNG_F64;
}();
template <>
inline constexpr faltung_dtype dtype_of<double> = FALTUNG_F64;
template <>
inline constexpr faltung_dtype dtype_of<float> = FALTUNG_F32;
template <>
inline constexpr faltung_dtype dtype_of<Float16> = FALTUNG_F16;
template <>
inline constexpr faltung_dtype dtype_of<BFloat16> = FALTUNG_BF16;
template <>
inline constexpr faltung_dtype dtype_of<std::int32_t> = FALTUNG_I32;
template <>
inline constexpr faltung_dtype dtype_of<std::int64_t> = FALTUNG_I64;
#ifdef __STDCPP_FLOAT16_T__
template <>
inline constexpr faltung_dtype dtype_of<std::float16_t> = FALTUNG_F16;
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <>
inline constexpr faltung_dtype dtype_of<std::bfloat16_t> = FALTUNG_BF16;
#endif

struct Device {
  faltung_device_type type = FALTUNG_CPU;
  std::int32_t index = 0;
};

// Without strides: the last axis has unit stride, no gaps. Inputs may be const: no function writes through a tensor
// that it takes as an input.
inline Tensor view(void const* data, faltung_dtype dtype, std::span<std::int64_t const> shape,
                   std::span<std::int64_t const> strides = {}, Device device = {}) {
  if (shape.size() > FALTUNG_MAX_RANK)
    throw Error(FALTUNG_INVALID_ARGUMENT, "a tensor: expected at most " + std::to_string(int(FALTUNG_MAX_RANK)) +
                                              " axes, got " + std::to_string(shape.size()));
  if (!strides.empty() && strides.size() != shape.size())
    throw Error(FALTUNG_INVALID_ARGUMENT, "a tensor: expected one stride for each of " + std::to_string(shape.size()) +
                                              " axes, got " + std::to_string(strides.size()));
  Tensor tensor = {};
  tensor.data = const_cast<void*>(data);
  tensor.dtype = dtype;
  tensor.device = device.type;
  tensor.device_index = device.index;
  tensor.rank = std::int32_t(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape);
  if (!strides.empty()) {
    std::copy(strides.begin(), strides.end(), tensor.strides);
    return tensor;
  }
  std::uint64_t stride = 1;  // unsigned: a product too large for 64 bits is the validation's to report
  for (auto axis = shape.size(); axis-- > 0;) {
    tensor.strides[axis] = std::int64_t(stride);
    stride *= std::uint64_t(std::max<std::int64_t>(shape[axis], 1));
  }
  return tensor;
}

template <typename T>
Tensor view(T* data, std::span<std::int64_t const> shape, std::span<std::int64_t const> strides = {},
            Device device = {}) {
  return view(static_cast<void const*>(data), dtype_of<std::remove_const_t<T>>, shape, strides, device);
}

template <typename T>
Tensor view(T* data, std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides = {},
            Device device = {}) {
  return view(data, std::span(shape.begin(), shape.size()), std::span(strides.begin(), strides.size()), device);
}

}  // namespace faltung
