// kvpress' table of prompts, CSV or JSON lines.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kKvPressFormat;

}  // namespace kvscope
