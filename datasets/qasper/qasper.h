// Qasper (Dasigi et al. 2021).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kQasperFormat;

}  // namespace kvscope
