// Drives a fuzz target with random bytes for a given time, without libFuzzer: DRIVER [--seconds S] [--seed N]
// [--iteration I]. Iteration I of seed N is the same bytes everywhere; a crash says which one it was.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace {

std::uint64_t volatile seed = 1, iteration = 0;

void tell(int signal) {
  char text[160];
  int const length = std::snprintf(text, sizeof text, "\nsignal %d; to repeat: --seed %llu --iteration %llu\n", signal,
                                   static_cast<unsigned long long>(seed), static_cast<unsigned long long>(iteration));
  if (write(2, text, std::size_t(length)) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run_one() {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + iteration;
  auto const next = [&] {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  std::uint8_t bytes[512];
  for (std::size_t i = 0; i < sizeof bytes; i += 8) {
    auto const word = next();
    std::memcpy(bytes + i, &word, 8);
  }
  LLVMFuzzerTestOneInput(bytes, sizeof bytes);
}

std::uint64_t number(char const* option, char const* text) {
  char* end = nullptr;
  auto const value = std::strtoull(text ? text : "", &end, 10);
  if (!text || end == text || *end) {
    std::fprintf(stderr, "%s: expected a number, got '%s'\n", option, text ? text : "nothing");
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 10;
  bool single = false;
  for (int i = 1; i < argc; i += 2) {
    char const* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (!std::strcmp(argv[i], "--seconds")) {
      seconds = double(number(argv[i], value));
    } else if (!std::strcmp(argv[i], "--seed")) {
      seed = number(argv[i], value);
    } else if (!std::strcmp(argv[i], "--iteration")) {
      iteration = number(argv[i], value);
      single = true;
    } else {
      std::fprintf(stderr, "expected --seconds, --seed or --iteration, got '%s'\n", argv[i]);
      return 2;
    }
  }
  for (int const signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, tell);
  if (single) {
    run_one();
    return 0;
  }
  auto const start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds)
    for (int n = 0; n < 64; ++n) {
      run_one();
      iteration = iteration + 1;
    }
  std::printf("%llu inputs in %.0f s, seed %llu; calls by status:", static_cast<unsigned long long>(iteration), seconds,
              static_cast<unsigned long long>(seed));
  for (long const count : faltung::fuzz::statuses) std::printf(" %ld", count);
  std::puts("");
  // A target that only ever fails, or only ever succeeds, tests nothing.
  return faltung::fuzz::statuses[FALTUNG_OK] > 0 && faltung::fuzz::statuses[FALTUNG_INVALID_ARGUMENT] > 0 ? 0 : 1;
}
