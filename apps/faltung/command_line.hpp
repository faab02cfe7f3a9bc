// The words of a command line: options of the form --name value or --name=value, flags, positional words; what is left
// over is an error.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace faltung::app {

// A mistake of the person at the keyboard: printed with the usage, exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CommandLine {
 public:
  CommandLine(int count, char** words) : words_(words, words + count) {}

  // The next positional word; "" where there is none.
  std::string word() {
    if (words_.empty() || words_.front().rfind("--", 0) == 0) return "";
    auto result = words_.front();
    words_.erase(words_.begin());
    return result;
  }

  bool flag(std::string const& name) {
    for (auto it = words_.begin(); it != words_.end(); ++it)
      if (*it == "--" + name) {
        words_.erase(it);
        return true;
      }
    return false;
  }

  std::string option(std::string const& name, std::string const& otherwise) {
    auto const dashed = "--" + name;
    for (auto it = words_.begin(); it != words_.end(); ++it) {
      if (it->rfind(dashed + "=", 0) == 0) {
        auto result = it->substr(dashed.size() + 1);
        words_.erase(it);
        return result;
      }
      if (*it != dashed) continue;
      if (it + 1 == words_.end()) throw UsageError(dashed + ": expected a value after it, got none");
      auto result = it[1];
      words_.erase(it, it + 2);
      return result;
    }
    return otherwise;
  }

  std::string required(std::string const& name, std::string const& example) {
    auto result = option(name, "");
    if (result.empty()) throw UsageError("--" + name + " is needed, for instance --" + name + " " + example);
    return result;
  }

  void finish() const {
    if (!words_.empty()) throw UsageError("not understood: '" + words_.front() + "'");
  }

 private:
  std::vector<std::string> words_;
};

inline std::vector<std::string> split(std::string const& text, char at) {
  std::vector<std::string> parts(1);
  for (char const c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// "8x64x32x32" or "8,64,32,32"
inline std::vector<std::int64_t> parse_shape(std::string const& name, std::string const& text) {
  std::vector<std::int64_t> shape;
  for (auto const& part : split(text, text.find(',') == std::string::npos ? 'x' : ',')) {
    std::size_t used = 0;
    try {
      shape.push_back(std::stoll(part, &used));
    } catch (std::exception const&) {
      used = 0;
    }
    if (used == 0 || used != part.size())
      throw UsageError("--" + name + ": expected a shape such as 8x64x32x32, got '" + text + "'");
  }
  return shape;
}

inline std::int64_t parse_number(std::string const& name, std::string const& text, std::int64_t least,
                                 std::int64_t most) {
  auto const shape = parse_shape(name, text);
  if (shape.size() != 1 || shape[0] < least || shape[0] > most)
    throw UsageError("--" + name + ": expected a number from " + std::to_string(least) + " to " + std::to_string(most) +
                     ", got '" + text + "'");
  return shape[0];
}

// One of `choices`, by name.
template <typename Value>
Value parse_choice(std::string const& name, std::string const& text,
                   std::vector<std::pair<char const*, Value>> const& choices) {
  std::string known;
  for (auto const& [word, value] : choices) {
    if (text == word) return value;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  throw UsageError("--" + name + ": expected one of " + known + ", got '" + text + "'");
}

}  // namespace faltung::app
