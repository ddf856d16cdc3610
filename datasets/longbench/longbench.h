// LongBench v1 (Bai et al. 2023).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kLongBenchFormat;

// Of a task by its name; of others by the document's language.
const PromptPolicy& longbench_policy(std::string_view task, std::string_view document);

}  // namespace kvscope
