// NarrativeQA (Kočiský et al. 2018): questions about summaries.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FolderFormatInfo kNarrativeQaFolder;

}  // namespace kvscope
