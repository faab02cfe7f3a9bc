// Reads the JSON of tests/cases: objects, arrays, strings without escapes but \" and \\, numbers, true, false, null.
#pragma once
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace faltung::testing {

struct Json {
  enum class Kind { null, boolean, number, string, array, object } kind = Kind::null;
  bool boolean = false;
  double number = 0;
  std::string string;
  std::vector<Json> array;
  std::map<std::string, Json> object;

  bool has(std::string const& key) const { return object.count(key) != 0; }
  Json const& operator[](std::string const& key) const {
    auto const found = object.find(key);
    if (found == object.end()) throw std::runtime_error("JSON: no member named " + key);
    return found->second;
  }
  std::vector<std::string> strings() const {
    std::vector<std::string> result;
    for (auto const& item : array) result.push_back(item.string);
    return result;
  }
  std::vector<std::int64_t> integers() const {
    std::vector<std::int64_t> result;
    for (auto const& item : array) result.push_back(std::int64_t(item.number));
    return result;
  }
};

class JsonReader {
 public:
  explicit JsonReader(std::string text) : text_(std::move(text)) {}
  Json read() {
    auto result = value();
    skip();
    if (at_ != text_.size()) wrong("the end");
    return result;
  }

 private:
  [[noreturn]] void wrong(std::string const& expected) const {
    throw std::runtime_error("JSON: expected " + expected + " at byte " + std::to_string(at_) + ", got '" +
                             text_.substr(at_, 12) + "'");
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) wrong(std::string(1, c));
  }
  bool word(std::string const& w) {
    if (text_.compare(at_, w.size(), w) != 0) return false;
    at_ += w.size();
    return true;
  }

  Json value() {
    Json result;
    char const c = peek();
    if (c == '{') {
      result.kind = Json::Kind::object;
      need('{');
      if (take('}')) return result;
      do {
        if (peek() != '"') wrong("a member name");
        auto key = quoted();
        need(':');
        result.object[key] = value();
      } while (take(','));
      need('}');
    } else if (c == '[') {
      result.kind = Json::Kind::array;
      need('[');
      if (take(']')) return result;
      do result.array.push_back(value());
      while (take(','));
      need(']');
    } else if (c == '"') {
      result.kind = Json::Kind::string;
      result.string = quoted();
    } else if (word("true") || word("false")) {
      result.kind = Json::Kind::boolean;
      result.boolean = text_[at_ - 2] == 'u';
    } else if (!word("null")) {
      result.kind = Json::Kind::number;
      std::size_t used = 0;
      try {
        result.number = std::stod(text_.substr(at_, 32), &used);
      } catch (std::exception const&) {
        wrong("a value");
      }
      at_ += used;
    }
    return result;
  }

  std::string quoted() {
    need('"');
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;
      if (at_ < text_.size()) result += text_[at_++];
    }
    if (at_ == text_.size()) wrong("a closing quote");
    ++at_;
    return result;
  }

  std::string text_;
  std::size_t at_ = 0;
};

inline Json read_json(std::string const& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return JsonReader(text.str()).read();
}

}  // namespace faltung::testing
