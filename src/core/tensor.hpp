// Checks and words about tensors, shared by the operators' api.cpp.
#pragma once
#include <string>

#include "faltung/faltung.h"

namespace faltung {

// "[8, 64, 32, 32]"
std::string shape_text(faltung_tensor const&);

std::int64_t element_count(faltung_tensor const&);

// Rank, dtype and device are values of their enums, extents are not negative, data is there when `data_is_read`
// and the tensor is not empty, and the span of offsets fits 64 bits. `name` is what messages call it.
void check_tensor(faltung_tensor const&, char const* name, bool data_is_read);

// Same device type and index as `other`.
void check_same_device(faltung_tensor const&, char const* name, faltung_tensor const& other, char const* other_name);

// An output's elements must not share memory through zero strides.
void check_writable(faltung_tensor const&, char const* name);

}  // namespace faltung
