// What there is to test: the geometries and dtype pairs of tests/cases/long_conv.json, and the implementations that
// faltung_long_conv_explain lists, with whether each accepts a case.
#pragma once
#include <algorithm>

#include "case.hpp"

namespace faltung::testing {

inline Json const& case_file() {
  static Json const file = read_json(FALTUNG_CASES "/long_conv.json");
  return file;
}

inline Boundary boundary_named(std::string const& name) {
  if (name == "zero") return Boundary::zero;
  if (name == "circular") return Boundary::circular;
  if (name == "causal") return Boundary::causal;
  throw std::runtime_error("cases: expected zero, circular or causal, got " + name);
}

inline Dtype dtype_named(std::string const& name) {
  for (auto const dtype : {FALTUNG_F64, FALTUNG_F32, FALTUNG_F16, FALTUNG_BF16})
    if (name == faltung::name_of(dtype)) return dtype;
  throw std::runtime_error("cases: expected a floating dtype, got " + name);
}

inline std::vector<Geometry> geometries(char const* list) {
  std::vector<Geometry> result;
  for (auto const& item : case_file()[list].array) {
    Geometry g{.extents = item["extents"].integers(), .filters = item["filters"].integers()};
    if (item.has("batch")) g.batch = std::int64_t(item["batch"].number);
    if (item.has("channels")) g.channels = std::int64_t(item["channels"].number);
    for (auto const& name : item["boundaries"].strings()) g.boundaries.push_back(boundary_named(name));
    if (item.has("centres"))
      for (auto const& centre : item["centres"].array)
        g.centres.push_back(centre.kind == Json::Kind::null ? std::nullopt
                                                            : std::optional(std::int64_t(centre.number)));
    result.push_back(std::move(g));
  }
  return result;
}

struct DtypePair {
  Dtype x, k;
};

inline std::vector<DtypePair> dtype_pairs(char const* list = "dtypes") {
  std::vector<DtypePair> result;
  for (auto const& item : case_file()[list].array)
    result.push_back({dtype_named(item.array.at(0).string), dtype_named(item.array.at(1).string)});
  return result;
}

inline Case make_case(Geometry const& geometry, Variation const& variation, std::uint64_t seed = 1) {
  Case c;
  static_cast<Geometry&>(c) = geometry;
  static_cast<Variation&>(c) = variation;
  c.seed = seed;
  return c;
}

// explain's text with only the shapes of the case, for one implementation or for all.
inline std::string explain_case(Case const& c, Direction direction, char const* implementation) {
  auto const shape_only = [](Dtype dtype, Shape const& shape) { return faltung::view(nullptr, dtype, shape); };
  Inputs const none{Array(c.x_dtype, {}), Array(c.k_dtype, {}), Array(c.x_dtype, {}), {}};
  auto options = options_of(c, none, implementation);
  return long_conv::explain(direction, shape_only(c.x_dtype, c.x_shape()), shape_only(c.k_dtype, c.k_shape()), options);
}

// Names in the order of the list, from the lines "  NAME: accepts: ..." and "  NAME: declines: ...".
inline std::vector<std::string> implementations() {
  Case c;
  c.extents = c.filters = {4};
  c.boundaries = {Boundary::zero};
  std::vector<std::string> names;
  std::istringstream text(explain_case(c, Direction::forward, nullptr));
  for (std::string line; std::getline(text, line);) {
    auto const colon = line.find(": ");
    if (colon == std::string::npos || line.compare(0, 2, "  ") != 0) continue;
    auto const rest = line.substr(colon + 2);
    if (rest.rfind("accepts", 0) == 0 || rest.rfind("declines", 0) == 0) names.push_back(line.substr(2, colon - 2));
  }
  return names;
}

inline bool accepts(Case const& c, Direction direction, std::string const& implementation) {
  return explain_case(c, direction, implementation.c_str()).find("chosen: " + implementation + "\n") !=
         std::string::npos;
}

inline std::string chosen(Case const& c, Direction direction) {
  auto const text = explain_case(c, direction, nullptr);
  auto const at = text.rfind("chosen: ");
  return text.substr(at + 8, text.size() - at - 9);
}

}  // namespace faltung::testing
