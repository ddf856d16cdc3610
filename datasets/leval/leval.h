// L-Eval (An et al. 2023).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kLEvalFormat;

}  // namespace kvscope
