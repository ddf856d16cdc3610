// Needle in a haystack (github.com/gkamradt/LLMTest_NeedleInAHaystack): what is there, for
// inspection.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kNiahConfigFormat;
extern const FormatInfo kNiahResultFormat;
extern const FolderFormatInfo kNiahFolder;

}  // namespace kvscope
