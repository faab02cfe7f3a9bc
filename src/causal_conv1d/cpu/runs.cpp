#include "causal_conv1d/cpu/runs.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

void check_packed(Problem const& p, Index const& index) {
  char const* const name = p.direction == Direction::update ? "query_start_loc" : "cu_seqlens";
  std::int64_t previous = 0;
  for (std::int64_t n = 0; n <= p.sequences; ++n) {
    auto const value = read(index, p.index_dtype, n);
    require(n != 0 || value == 0, name, "[0]: expected 0, got ", value);
    require(value >= previous, name, "[", n, "]: expected at least ", name, "[", n - 1, "] = ", previous, ", got ",
            value);
    require(value <= p.time, name, "[", n, "]: expected at most the ", p.time, " tokens of x, got ", value);
    previous = value;
  }
}

void cut_packed(Problem const& p, Index const& index, Runs& runs) {
  std::int64_t previous = 0;
  for (std::int64_t n = 0; n < p.sequences; ++n) {
    auto const begin = std::clamp(read(index, p.index_dtype, n), previous, p.time);
    auto const end = std::clamp(read(index, p.index_dtype, n + 1), begin, p.time);
    runs.first.push_back({0, begin, end, n});
    previous = end;
  }
}

void cut_padded(Problem const& p, Index const& index, bool check, Runs& runs) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    auto const length = read(index, p.index_dtype, b);
    require(!check || (length >= 0 && length <= p.time), "lengths[", b, "]: expected 0 to ", p.time, " tokens, got ",
            length);
    runs.first.push_back({b, 0, std::clamp<std::int64_t>(length, 0, p.time), b});
  }
}

void cut_labelled(Problem const& p, Index const& index, Runs& runs) {
  auto const labels = static_cast<std::int32_t const*>(index.data);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    auto const label = [&](std::int64_t t) { return labels[b * index.batch + t * index.stride]; };
    Run first{b, 0, 0, b}, last = first;
    for (std::int64_t begin = 0, end; begin < p.time; begin = end) {
      for (end = begin + 1; end < p.time && label(end) == label(begin);) ++end;
      if (label(begin) < 0) continue;
      bool const is_first = first.length() == 0;
      last = {b, begin, end, is_first ? b : -1};
      if (is_first) first = last;
      runs.all.push_back(last);
    }
    runs.first.push_back(first);
    runs.last.push_back(last);
  }
}

}  // namespace

std::int64_t read(Index const& index, Dtype dtype, std::int64_t at) {
  if (dtype == FALTUNG_I64) return static_cast<std::int64_t const*>(index.data)[at * index.stride];
  return static_cast<std::int32_t const*>(index.data)[at * index.stride];
}

Runs cut(Problem const& p, Index const& index, bool check) {
  Runs runs;
  runs.first.reserve(p.sequences);
  switch (p.cut) {
    case Sequences::whole:
      for (std::int64_t b = 0; b < p.batch; ++b) runs.first.push_back({b, 0, p.time, b});
      break;
    case Sequences::packed:
      if (check) check_packed(p, index);
      cut_packed(p, index, runs);
      break;
    case Sequences::padded:
      cut_padded(p, index, check, runs);
      break;
    case Sequences::labelled:
      cut_labelled(p, index, runs);
      return runs;
  }
  std::copy_if(runs.first.begin(), runs.first.end(), std::back_inserter(runs.all),
               [](Run const& r) { return r.length() > 0; });
  return runs;
}

}  // namespace faltung::causal_conv1d::cpu
