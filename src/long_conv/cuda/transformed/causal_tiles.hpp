// Two and three causal axes of a grid, to the bit. Blocks of 32 points along either axis; what an output gets from
//   earlier blocks along the inner axis   levels b = 32, 64, ...: every second run of b columns, transformed with 2b
//                                         points, adds to the run behind it; the outer axis is summed directly
//   its own block of columns, and earlier blocks along the outer axis
//                                         the same with the axes exchanged, on a turned copy of the images
//   its own block along both              a sum over a tile of 32 x 32 points
// so no arithmetic of an output knows a later input along either axis. Beside a third axis, which is transformed
// throughout, blocks have 16 points along the inner one of the two, and an output's own block is summed directly for
// each frequency of the third axis. Three causal axes are cut into blocks of 16 points; what an output gets from cubes
// that differ from its own along
//   the two inner axes, or one of them    levels along these, the outer axis directly, the own blocks of the other too
//   the outer axis alone                  levels along it, the own blocks along the others directly
//   none                                  a sum over a cube (cubes.cu)
#pragma once
#include <vector>

#include "long_conv/cuda/transformed/kernels.hpp"
#include "long_conv/cuda/transformed/tiles.hpp"

namespace faltung::long_conv::cuda::transformed {

// A convolution with one causal axis that adds to the sums of the call.
struct CausalPart {
  Problem problem;
  Pieces pieces;
  bool turned = false;  // reads the turned copy of x, adds to the turned sums
};

// The whole of a call, of which a range of channels is worked on at a time.
class CausalTiles {
 public:
  explicit CausalTiles(Problem const&);

  std::vector<CausalPart> const& parts() const { return parts_; }  // of the largest range
  std::int64_t channels() const { return channels_; }
  std::size_t workspace() const;
  std::string text() const;  // what is done, for explain
  void forward(ForwardArgs const&) const;

 private:
  std::vector<CausalPart> parts_of(std::int64_t channels) const;
  std::size_t points() const { return p_.axes[0].extent * p_.axes[1].extent * p_.axes[2].extent * p_.batch; }
  bool in_cubes() const;
  bool in_space() const { return p_.axes[0].extent > 1; }
  std::size_t own_bytes() const { return (in_space() ? 1 : 2) * sum_bytes_ + turned_bytes_; }
  void forward_range(ForwardArgs const&, std::int64_t channels) const;

  Problem const p_;
  std::size_t real_bytes_;
  std::int64_t channels_;
  std::size_t sum_bytes_, turned_bytes_;  // of a range: sums, in a plane turned ones as well; the turned copy of x
  std::vector<CausalPart> parts_;
};

// Null where cuda.transformed takes each part.
char const* reject_causal_tiles(Problem const&);

}  // namespace faltung::long_conv::cuda::transformed
