// Copies between a view of any strides, fast where channels lie side by side, and contiguous planes.
#pragma once
#include <cuda_runtime_api.h>

#include "cuda/divisor.hpp"
#include "long_conv/problem.hpp"

namespace faltung::long_conv::cuda {

struct PlaneCopy {
  void const* from;
  void* to;
  Strides strides;    // of the view; planes are [batch, channels, points]
  int element_bytes;  // 2, 4 or 8
  std::uint32_t batch, channels, points;
  faltung::cuda::Divisor by_plane;                // points of the two inner axes
  faltung::cuda::Divisor by_row;                  // points of the innermost axis
  faltung::cuda::Divisor by_channels, by_points;  // tiles along them
};

// Those of one launch, all in one direction.
struct PlaneCopies {
  static constexpr int most = 3;
  PlaneCopy copies[most];
  int count = 0;
  bool to_planes;
};

// `view` is read or written; extents are [batch, channels, three spatial axes].
void add_copy(PlaneCopies&, ConstView const& view, void* planes, Dtype, std::int64_t batch, std::int64_t channels,
              std::array<std::int64_t, 3> const& extents);
void copy_planes(PlaneCopies const&, cudaStream_t);

}  // namespace faltung::long_conv::cuda
