#pragma once

#include "harness/tasks/task.h"

namespace kvscope {

extern const TaskInfo kPerplexityTask;

// Arms that act from the first token and differ only in how a prompt would be prefilled do the same
// here: there is no prefill.
PolicySpec as_run_in_stream(PolicySpec policy);

}  // namespace kvscope
