#pragma once

#include "harness/tasks/task.h"

namespace kvscope {

extern const TaskInfo kDialogueTask;

}  // namespace kvscope
