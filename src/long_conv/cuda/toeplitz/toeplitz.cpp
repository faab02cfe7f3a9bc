// Which problems the toeplitz kernels take, and with what policy.
#include "long_conv/cuda/toeplitz/toeplitz.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"
#include "long_conv/cuda/toeplitz/split.hpp"

namespace faltung::long_conv::cuda::toeplitz {
LagAxis make_lag_axis(Axis const& axis) {
  int const extent = int(axis.extent), most = extent - 1;
  if (axis.boundary == Boundary::circular) {
    auto const centre = (axis.centre % extent + extent) % extent;
    return {extent, -most, most, axis.filter, centre, true};
  }
  auto const low = std::max<std::int64_t>(-most, -axis.centre),
             high = std::min<std::int64_t>(most, axis.filter - 1 - axis.centre);
  if (low > high) return {extent, 0, -1, axis.filter, axis.centre, false};
  return {extent, int(low), int(high), axis.filter, axis.centre, false};
}

Shape make_shape(Problem const& p) {
  return {make_lag_axis(p.axes[1]), make_lag_axis(p.axes[2]), p.batch, p.channels,
          p.sharing == FilterSharing::shared ? images : 1};
}

bool has_all_lags(Problem const& p, int extent) {
  for (int a = 1; a < 3; ++a)
    if (auto const& axis = p.axes[a]; axis.boundary != Boundary::zero || axis.extent != extent ||
                                      axis.filter != 2 * extent - 1 || axis.centre != extent - 1)
      return false;
  return true;
}

ToeplitzPolicy choose_policy(Problem const& p) {
  int const tiles = p.axes[2].extent <= 16 ? 1 : p.axes[2].extent <= 32 ? 2 : 4;
  bool const fits =
      backward_bytes(make_shape(p), tiles, true, true) <= std::size_t(faltung::cuda::shared_memory_budget());
  return {.tiles = tiles, .one_launch = fits};
}

std::size_t shared_bytes(Problem const& p) {
  auto const shape = make_shape(p);
  auto const [tiles, one_launch] = choose_policy(p);
  if (is_split(p))
    return p.direction == Direction::forward
               ? split_forward_bytes(shape, tiles)
               : std::max(split_forward_bytes(shape, tiles), split_gradient_bytes(shape, tiles));
  if (p.direction == Direction::forward) return forward_bytes(shape, tiles);
  if (one_launch) return backward_bytes(shape, tiles, true, true);
  return std::max(backward_bytes(shape, tiles, true, false), backward_bytes(shape, tiles, false, true));
}

char const* reject(Problem const& p) {
  if (p.x_dtype == FALTUNG_F64) return "takes fp32 and inputs of 16 bits";
  if (p.k_dtype != p.x_dtype && p.k_dtype != FALTUNG_F32) return "takes filters of the dtype of x or in fp32";
  if (p.axes[0].extent != 1 || p.axes[0].filter != 1 || p.axes[0].centre != 0) return "takes one or two axes";
  if (p.axes[2].extent > 64) return "takes rows of up to 64 points";
  if (is_split(p) && p.axes[2].extent > 32) return "takes rows of up to 32 points where the filter is fp32";
  if (p.axes[1].extent > 4096) return "takes up to 4096 rows";
  for (auto const& axis : p.axes)
    if (axis.boundary == Boundary::circular && axis.filter > axis.extent)
      return "takes circular filters of at most the extent: longer ones add up taps";
  std::size_t const beside = is_split(p) ? 2 * sizeof(Magnitudes) : 0;
  if (shared_bytes(p) + beside > std::size_t(faltung::cuda::shared_memory_budget()))
    return "eight images and their filter exceed the device's shared memory";
  return nullptr;
}

std::string policy(Problem const& p) {
  auto const shape = make_shape(p);
  auto const [tiles, one_launch] = choose_policy(p);
  bool const fp32 = is_split(p), split = p.direction == Direction::backward && (fp32 || !one_launch);
  return concatenate("mma.sync m16n8k16 of ", fp32 ? "three products of fp16 halves of fp32" : name_of(p.x_dtype),
                     ", fp32 sums; ", shape.images_per_filter, shape.images_per_filter == 1 ? " image" : " images",
                     " a block, ", tiles, " x 16 columns, ", rows_per_warp, " rows a warp, ", shape.row_lags(),
                     " row lags, ", shared_bytes(p), " bytes of shared memory",
                     split ? ", dx and dk in two launches" : "");
}

}  // namespace faltung::long_conv::cuda::toeplitz
