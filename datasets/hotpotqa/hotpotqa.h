// HotpotQA (Yang et al. 2018).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kHotpotQaFormat;

}  // namespace kvscope
