// The command: what this build is, what it would choose and why, whether it computes right here, how fast.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "faltung/error.hpp"
#include "json.hpp"
#include "operators.hpp"

namespace faltung::app {
namespace {

constexpr Operator const* operators[] = {&long_conv_operator};

void print_usage(std::FILE* to) {
  std::fputs(
      "faltung info [--json]                       version, instruction set, threads, backends\n"
      "faltung explain OPERATOR SHAPES             the implementations, why each accepts or declines, the choice\n"
      "faltung verify [--fast] [--json]            every implementation on this machine against the double reference\n"
      "faltung bench OPERATOR SHAPES [--seconds S] [--threads N] [--json]   time of a call, per implementation\n\n"
      "Operators and their shapes:\n",
      to);
  for (auto const* entry : operators) std::fputs(entry->usage, to);
}

Operator const& parse_operator(CommandLine& line) {
  auto const name = line.word();
  std::string known;
  for (auto const* entry : operators) {
    if (name == entry->name) return *entry;
    known += (known.empty() ? "" : ", ") + std::string(entry->name);
  }
  throw UsageError("expected an operator (" + known + "), got " + (name.empty() ? "none" : "'" + name + "'"));
}

int run_info(CommandLine& line) {
  bool const json = line.flag("json");
  line.finish();
  auto const text = info();
  if (!json) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  std::vector<std::pair<std::string, std::string>> members;
  for (auto const& row : split(text, '\n'))
    if (auto const colon = row.find(": "); colon != std::string::npos)
      members.emplace_back(row.substr(0, colon), json_string(row.substr(colon + 2)));
  std::puts(json_object(members).c_str());
  return 0;
}

int run_explain(CommandLine& line) {
  std::fputs(parse_operator(line).explain(line).c_str(), stdout);
  return 0;
}

// A bar on a terminal, nothing elsewhere.
Progress progress_bar(char const* name) {
  if (!isatty(STDERR_FILENO)) return [](std::size_t, std::size_t) {};
  return [name](std::size_t done, std::size_t all) {
    constexpr std::size_t width = 40;
    auto const filled = done * width / all;
    std::fprintf(stderr, "\r%-14s [%s%s] %zu/%zu%s", name, std::string(filled, '#').c_str(),
                 std::string(width - filled, ' ').c_str(), done, all, done == all ? "\n" : "");
  };
}

int run_verify(CommandLine& line) {
  bool const fast = line.flag("fast"), json = line.flag("json");
  line.finish();
  struct Row {
    int passed = 0, failed = 0;
    double worst = 0;  // error / bound
  };
  std::map<std::pair<std::string, std::string>, Row> rows;
  std::vector<std::string> failures, records;
  for (auto const* entry : operators)
    for (auto const& check : entry->verify(fast, progress_bar(entry->name))) {
      auto& row = rows[{std::string(entry->name) + " " + check.implementation, check.dtype}];
      ++(check.passed() ? row.passed : row.failed);
      row.worst = std::max(row.worst, check.error / check.bound);
      if (!check.passed())
        failures.push_back(check.implementation + " " + check.what + ": relative error " + json_number(check.error) +
                           ", bound " + json_number(check.bound) + "\n  " + check.problem);
    }
  if (json) {
    for (auto const& [key, row] : rows)
      records.push_back(json_object({{"implementation", json_string(key.first)},
                                     {"dtype", json_string(key.second)},
                                     {"passed", std::to_string(row.passed)},
                                     {"failed", std::to_string(row.failed)},
                                     {"worst error over bound", json_number(row.worst)}}));
    std::vector<std::string> texts;
    for (auto const& failure : failures) texts.push_back(json_string(failure));
    std::puts(json_object({{"passed", failures.empty() ? "true" : "false"},
                           {"checks", json_array(records, ",\n  ")},
                           {"failures", json_array(texts, ",\n  ")}})
                  .c_str());
  } else {
    std::printf("%-32s %-9s %7s %7s   worst error / bound\n", "implementation", "dtype", "passed", "failed");
    for (auto const& [key, row] : rows)
      std::printf("%-32s %-9s %7d %7d   %.3f\n", key.first.c_str(), key.second.c_str(), row.passed, row.failed,
                  row.worst);
    for (auto const& failure : failures) std::printf("FAILED %s\n", failure.c_str());
    std::puts(failures.empty() ? "every result is within the bounds of the contract"
                               : "some results are out of bounds");
  }
  return failures.empty() && !rows.empty() ? 0 : 1;
}

int run_bench(CommandLine& line) {
  auto const& entry = parse_operator(line);
  bool const json = line.flag("json");
  auto const seconds = double(parse_number("seconds", line.option("seconds", "1"), 0, 3600));
  check(faltung_set_num_threads(int(parse_number("threads", line.option("threads", "0"), 0, 4096))));
  auto const timings = entry.bench(line, seconds);
  std::vector<std::string> records;
  for (auto const& timing : timings) {
    records.push_back(json_object({{"operator", json_string(entry.name)},
                                   {"implementation", json_string(timing.implementation)},
                                   {"direction", json_string(timing.direction)},
                                   {"threads", std::to_string(faltung_num_threads())},
                                   {"milliseconds", json_number(timing.milliseconds)}}));
    if (!json)
      std::printf("%-20s %-9s %10.4f ms\n", timing.implementation.c_str(), timing.direction.c_str(),
                  timing.milliseconds);
  }
  if (json) std::puts(json_array(records, ",\n ").c_str());
  return timings.empty() ? 1 : 0;
}

int run(int count, char** words) {
  CommandLine line(count - 1, words + 1);
  if (count < 2 || line.flag("help")) {
    print_usage(count < 2 ? stderr : stdout);
    return count < 2 ? 2 : 0;
  }
  auto const command = line.word();
  if (command == "info") return run_info(line);
  if (command == "explain") return run_explain(line);
  if (command == "verify") return run_verify(line);
  if (command == "bench") return run_bench(line);
  throw UsageError("expected info, explain, verify or bench, got '" + command + "'");
}

}  // namespace
}  // namespace faltung::app

int main(int count, char** words) {
  try {
    return faltung::app::run(count, words);
  } catch (faltung::app::UsageError const& error) {
    std::fprintf(stderr, "faltung: %s\n\n", error.what());
    faltung::app::print_usage(stderr);
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "faltung: %s\n", error.what());
    return 1;
  }
}
