// The entry of each built-in part; parts.cpp collects them.
#pragma once

#include "runner/policies/parts.h"

namespace kvscope {

PartInfo pyramid_part();
PartInfo adakv_part();
PartInfo cake_part();
PartInfo page_part();
PartInfo kivi_part();
PartInfo kv_int8_part();
PartInfo kv_fp8_part();
PartInfo minference_part();

}  // namespace kvscope
