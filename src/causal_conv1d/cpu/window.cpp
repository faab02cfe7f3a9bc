#include "causal_conv1d/cpu/window.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace faltung::causal_conv1d::cpu {
namespace {

std::int64_t read32(Index const& index, std::int64_t n, std::int64_t otherwise) {
  return index.data ? read(index, FALTUNG_I32, n) : otherwise;
}

// A slot beyond the state is no slot.
std::int64_t slot(std::int64_t value, std::int64_t slots) { return value < slots ? value : -1; }

}  // namespace

void plan_row(Problem const& p, UpdateArgs const& a, std::int64_t n, std::int64_t tokens, RowUpdate& row) {
  std::int64_t const columns = a.state.columns, before = p.width - 1;
  row.source = slot(read32(a.source, n, n), a.slots);
  row.destination = slot(read32(a.destination, n, row.source), a.slots);
  row.history.resize(before);
  row.next.clear();
  if (row.source < 0) return;
  // The kept tail of the source's columns [first, last), then the tokens: entry i of what the row knows.
  std::int64_t first = 0, last = columns;
  std::int64_t const position = read32(a.position, n, 0), accepted = read32(a.accepted, n, 1);
  switch (p.window) {
    case Window::trailing:
      for (std::int64_t j = 0; j < before; ++j) row.history[j] = columns - before + j;
      break;
    case Window::leading:
      // Clamped: whatever num_accepted says, the window stays inside the buffer.
      first = std::clamp<std::int64_t>(accepted, 1, columns - before + 1) - 1;
      last = first + before;
      for (std::int64_t j = 0; j < before; ++j) row.history[j] = first + j;
      break;
    case Window::ring:
      for (std::int64_t j = 0; j < before; ++j)
        row.history[j] = ((position - before + j) % columns + columns) % columns;
      break;
  }
  if (row.destination < 0) return;
  bool const in_place = row.destination == row.source;
  row.next.resize(columns);
  for (std::int64_t i = 0; i < columns; ++i) row.next[i] = in_place ? -1 : i;
  if (tokens == 0) return;
  if (p.window == Window::ring) {
    if (columns == 0) return;
    for (std::int64_t i = std::max<std::int64_t>(0, tokens - columns); i < tokens; ++i)
      row.next[((position + i) % columns + columns) % columns] = columns + i;
    return;
  }
  std::int64_t const known = last - first + tokens;
  std::int64_t const written = p.window == Window::trailing ? columns
                               : a.accepted.data            ? std::min(columns, before - 1 + tokens)
                                                            : before;
  // num_accepted keeps everything but the oldest column of the window; the others keep the newest that fit.
  std::int64_t const skipped = a.accepted.data ? 1 : known - written;
  for (std::int64_t i = 0; i < written; ++i) {
    std::int64_t const entry = skipped + i, kept = last - first;
    row.next[i] = entry < kept ? first + entry : columns + entry - kept;
  }
}

void check_content(Problem const& p, UpdateArgs const& a, Runs const& runs) {
  for (std::int64_t n = 0; n < p.sequences; ++n) {
    auto const source = read32(a.source, n, -1), destination = read32(a.destination, n, -1),
               accepted = read32(a.accepted, n, 1);
    require(source < a.slots, "state_indices[", n, "]: expected less than the ", a.slots, " slots of the state, got ",
            source);
    require(destination < a.slots, "output_state_indices[", n, "]: expected less than the ", a.slots,
            " slots of the state, got ", destination);
    require(read32(a.position, n, 0) >= 0, "cache_seqlens[", n, "]: expected 0 or more, got ",
            read32(a.position, n, 0));
    auto const most = a.state.columns - p.width + 2;
    require(accepted >= 1 && accepted <= most, "num_accepted[", n, "]: expected 1 to ", most, " for a state of ",
            a.state.columns, " columns and width ", p.width, ", got ", accepted);
    auto const tokens = runs.first[n].length();
    require(!a.accepted.data || a.state.columns >= p.width - 2 + tokens, "row ", n, ": num_accepted with ", tokens,
            " tokens needs a state of at least ", p.width - 2 + tokens, " columns, got ", a.state.columns);
  }
}

}  // namespace faltung::causal_conv1d::cpu
