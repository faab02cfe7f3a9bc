#include "causal_conv1d/problem.hpp"

#include "core/error.hpp"

namespace faltung::causal_conv1d {
namespace {

char const* name_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return "forward";
    case Direction::backward:
      return "backward";
    case Direction::update:
      return "update";
  }
  return "?";
}

char const* name_of(Sequences cut) {
  switch (cut) {
    case Sequences::whole:
      return "one per row";
    case Sequences::packed:
      return "packed";
    case Sequences::labelled:
      return "labelled";
    case Sequences::padded:
      return "right-padded";
  }
  return "?";
}

}  // namespace

std::string to_string(Problem const& p) {
  return concatenate("causal_conv1d ", name_of(p.direction), " on ", p.device == FALTUNG_CPU ? "cpu" : "cuda", ": x ",
                     faltung::name_of(p.x_dtype), " [batch ", p.batch, ", channels ", p.channels, ", time ", p.time,
                     "], ", p.sequences, " sequences ", name_of(p.cut), ", weight ", faltung::name_of(p.weight_dtype),
                     " of width ", p.width, p.activation == Activation::silu ? ", silu" : ", no activation",
                     p.unit_stride == UnitStride::time      ? ", unit stride along time"
                     : p.unit_stride == UnitStride::channel ? ", unit stride along channels"
                                                            : ", no unit stride");
}

}  // namespace faltung::causal_conv1d
