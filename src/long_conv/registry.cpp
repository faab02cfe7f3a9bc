#include <array>
#include <optional>

#include "long_conv/implementation.hpp"

namespace faltung::long_conv {
namespace {

auto& table() {
  static std::array<std::optional<Backend>, 2> backends;
  return backends;
}

}  // namespace

void register_backend(faltung_device_type device, Backend const& backend) { table().at(device) = backend; }

Backend const* backend(faltung_device_type device) {
  auto const& entry = table().at(device);
  return entry ? &*entry : nullptr;
}

}  // namespace faltung::long_conv
