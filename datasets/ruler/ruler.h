// RULER (Hsieh et al. 2024).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kRulerFormat;
extern const FolderFormatInfo kRulerFolder;

}  // namespace kvscope
