#pragma once

#include "harness/tasks/task.h"

namespace kvscope {

extern const TaskInfo kReplayTask;

}  // namespace kvscope
