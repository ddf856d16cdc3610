#pragma once

#include "harness/tasks/task.h"

namespace kvscope {

extern const TaskInfo kNeedleTask;

}  // namespace kvscope
