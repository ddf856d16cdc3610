// BAMBOO (Dong et al. 2023): altqa, meetingqa, paperqa and what looks like them.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kBambooFormat;

}  // namespace kvscope
