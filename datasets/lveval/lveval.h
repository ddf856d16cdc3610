// LV-Eval (Yuan et al. 2024).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kLvEvalFormat;

}  // namespace kvscope
