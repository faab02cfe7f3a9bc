// How tokens fall into sequences, as kernels read it.
#pragma once
#include "causal_conv1d/problem.hpp"

namespace faltung::causal_conv1d::cuda {

// Of a row of labels: its first token of a run, and the end of its last run. time and 0 where there is none.
struct LabelEdges {
  std::int64_t first, last;
};

struct Cut {
  Sequences kind;
  Dtype dtype;  // of the index
  Index index;
  std::int64_t time, sequences;
  int width;
  LabelEdges const* edges;  // [batch], labelled and with states only
};

}  // namespace faltung::causal_conv1d::cuda
