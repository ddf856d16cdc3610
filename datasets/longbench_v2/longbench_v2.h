// LongBench v2 (Bai et al. 2024).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kLongBenchV2Format;

}  // namespace kvscope
