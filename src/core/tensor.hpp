// Checks and words about tensors, shared by the operators' api.cpp.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

#include "faltung/faltung.h"

namespace faltung {

// Prints as "[8, 64, 32, 32]". Composed when it is printed: the arguments of a `require` that holds are evaluated too,
// and a dozen strings a call cost more than all its checks.
struct ShapeText {
  std::span<std::int64_t const> extents;
  friend std::ostream& operator<<(std::ostream&, ShapeText);
};

inline ShapeText shape_text(faltung_tensor const& tensor) { return {{tensor.shape, std::size_t(tensor.rank)}}; }
inline ShapeText shape_text(std::initializer_list<std::int64_t> extents) { return {{extents.begin(), extents.size()}}; }

std::int64_t element_count(faltung_tensor const&);

// Rank, dtype and device are values of their enums, extents are not negative, data is there when `data_is_read`
// and the tensor is not empty, and the span of offsets fits 64 bits. `name` is what messages call it.
void check_tensor(faltung_tensor const&, char const* name, bool data_is_read);

// Same device type and index as `other`.
void check_same_device(faltung_tensor const&, char const* name, faltung_tensor const& other, char const* other_name);

// An output's elements must not share memory through zero strides.
void check_writable(faltung_tensor const&, char const* name);

}  // namespace faltung
