#include <array>
#include <optional>

#include "causal_conv1d/implementation.hpp"

namespace faltung::causal_conv1d {
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

}  // namespace faltung::causal_conv1d
