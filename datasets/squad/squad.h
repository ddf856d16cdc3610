// SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018), and CMRC 2018 (Cui et al. 2019), which is
// written the same.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kSquadFormat;
extern const FormatInfo kCmrcFormat;

}  // namespace kvscope
