#include "core/tensor.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace faltung {
namespace {

// "cpu", "cuda:1"; composed when it is printed, as ShapeText.
struct DeviceText {
  faltung_tensor const& tensor;
  friend std::ostream& operator<<(std::ostream& out, DeviceText text) {
    if (text.tensor.device == FALTUNG_CPU) return out << "cpu";
    return out << "cuda:" << text.tensor.device_index;
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, ShapeText text) {
  out << '[';
  for (std::size_t i = 0; i < text.extents.size(); ++i) out << (i ? ", " : "") << text.extents[i];
  return out << ']';
}

std::int64_t element_count(faltung_tensor const& tensor) {
  // An empty tensor may have extents whose product does not fit.
  for (int i = 0; i < tensor.rank; ++i)
    if (tensor.shape[i] == 0) return 0;
  std::int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

void check_tensor(faltung_tensor const& tensor, char const* name, bool data_is_read) {
  require(tensor.rank >= 0 && tensor.rank <= FALTUNG_MAX_RANK, name, ": expected a rank from 0 to ",
          int(FALTUNG_MAX_RANK), ", got ", tensor.rank);
  require_type(tensor.dtype >= FALTUNG_F64 && tensor.dtype <= FALTUNG_I64, name,
               ": expected a value of faltung_dtype, got ", int(tensor.dtype));
  require_type(tensor.device == FALTUNG_CPU || tensor.device == FALTUNG_CUDA, name,
               ": expected a value of faltung_device_type, got ", int(tensor.device));
  std::int64_t count = 1, span = 0, bytes;
  bool empty = false;
  for (int i = 0; i < tensor.rank; ++i) {
    auto const extent = tensor.shape[i];
    require(extent >= 0, name, ": extents must not be negative, got ", shape_text(tensor));
    if (extent == 0) empty = true;
  }
  if (empty) return;
  for (int i = 0; i < tensor.rank; ++i) {
    auto const extent = tensor.shape[i], stride = tensor.strides[i];
    std::int64_t reach;
    bool const overflow = __builtin_mul_overflow(count, extent, &count) || stride == INT64_MIN ||
                          __builtin_mul_overflow(extent - 1, stride < 0 ? -stride : stride, &reach) ||
                          __builtin_add_overflow(span, reach, &span) ||
                          __builtin_mul_overflow(span, size_of(tensor.dtype), &bytes);
    require(!overflow, name, ": shape ", shape_text(tensor), " with stride ", stride, " on axis ", i,
            " spans more bytes than 64 bits can address");
  }
  require(!data_is_read || tensor.data != nullptr, name, ": expected data for shape ", shape_text(tensor),
          ", got NULL");
}

void check_same_device(faltung_tensor const& tensor, char const* name, faltung_tensor const& other,
                       char const* other_name) {
  bool const same =
      tensor.device == other.device && (tensor.device == FALTUNG_CPU || tensor.device_index == other.device_index);
  require_type(same, name, " is on ", DeviceText{tensor}, ", ", other_name, " is on ", DeviceText{other});
}

void check_writable(faltung_tensor const& tensor, char const* name) {
  if (element_count(tensor) == 0) return;
  for (int i = 0; i < tensor.rank; ++i)
    require(tensor.shape[i] <= 1 || tensor.strides[i] != 0, name, ": an output must not have stride 0 on axis ", i,
            ", which has ", tensor.shape[i], " elements");
}

}  // namespace faltung
