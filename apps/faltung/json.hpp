// Writes JSON text: strings, numbers, and members joined in the order given.
#pragma once
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace faltung::app {

inline std::string json_string(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + "\"";
}

inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

inline std::string json_object(std::vector<std::pair<std::string, std::string>> const& members) {
  std::string result = "{";
  for (auto const& [name, value] : members)
    result += (result.size() > 1 ? ", " : "") + json_string(name) + ": " + value;
  return result + "}";
}

inline std::string json_array(std::vector<std::string> const& items, char const* between = ", ") {
  std::string result = "[";
  for (auto const& item : items) result += (result.size() > 1 ? between : "") + item;
  return result + "]";
}

}  // namespace faltung::app
