#include "long_conv/problem.hpp"

#include "core/error.hpp"

namespace faltung::long_conv {
namespace {

char const* name_of(Boundary boundary) {
  switch (boundary) {
    case Boundary::zero:
      return "zero";
    case Boundary::circular:
      return "circular";
    case Boundary::causal:
      return "causal";
  }
  return "?";
}

}  // namespace

std::string to_string(Problem const& p) {
  auto text = concatenate("long_conv", p.rank, "d ", p.direction == Direction::forward ? "forward" : "backward", " on ",
                          p.device == FALTUNG_CPU ? "cpu" : "cuda", ": x ", faltung::name_of(p.x_dtype), " [", p.batch,
                          ", ", p.channels);
  for (int i = 3 - p.rank; i < 3; ++i) text += concatenate(", ", p.axes[i].extent);
  text += concatenate("], k ", faltung::name_of(p.k_dtype), " [",
                      p.sharing == FilterSharing::shared ? "shared" : "per sample");
  for (int i = 3 - p.rank; i < 3; ++i) text += concatenate(", ", p.axes[i].filter);
  text += "],";
  for (int i = 3 - p.rank; i < 3; ++i) text += concatenate(" ", name_of(p.axes[i].boundary), "@", p.axes[i].centre);
  text += p.unit_stride == UnitStride::innermost ? ", unit stride innermost"
          : p.unit_stride == UnitStride::channel ? ", unit stride over channels"
                                                 : ", no unit stride";
  return text;
}

}  // namespace faltung::long_conv
