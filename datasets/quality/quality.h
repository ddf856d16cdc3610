// QuALITY (Pang et al. 2022).
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FormatInfo kQualityFormat;

}  // namespace kvscope
