#pragma once
#include "causal_conv1d/cpu/runs.hpp"

namespace faltung::causal_conv1d::cpu {

// final_state: the last tokens of each sequence, bit for bit where the dtypes are equal.
void write_final_state(Problem const&, ForwardArgs const&, Runs const&);

}  // namespace faltung::causal_conv1d::cpu
