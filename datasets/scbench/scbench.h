// SCBench (Li et al. 2024): several questions about one context.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kScBenchFormat;

}  // namespace kvscope
