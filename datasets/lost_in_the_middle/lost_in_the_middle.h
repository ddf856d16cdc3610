// Lost in the middle (Liu et al. 2023): questions over passages, and key-value retrieval.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kLostInTheMiddleQaFormat;
extern const FormatInfo kLostInTheMiddleKvFormat;

}  // namespace kvscope
