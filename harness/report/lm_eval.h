// Results in the layout of lm-evaluation-harness, so that its tools and people's scripts read them:
// FOLDER/<model>__<arm>/results_<time>.json and samples_<data set>_<time>.jsonl.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/store/queries.h"

namespace kvscope {

// "2026-01-02T03-04-05.000001": UTC, with "-" for ":".
std::string lm_eval_time(double unix_seconds);

// Writes one arm; returns the files. Prompts are not stored, only their hash: arg_0 is null. A
// metric that was not run stands nowhere (lm-eval's -1 for lengths of RULER is not written). Throws
// IoError.
std::vector<std::filesystem::path> write_lm_eval(Store& store, const ArmRow& arm,
                                                 const std::filesystem::path& folder);

}  // namespace kvscope
