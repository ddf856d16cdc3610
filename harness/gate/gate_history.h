// What a gate of the same name said on earlier nights.
#pragma once

#include "harness/gate/gate_run.h"
#include "metrics/stats/sequential.h"

namespace kvscope {

// tonight: decided but for its history. Nights count by data set: the same samples again say
// nothing new.
CheckHistory check_history(Store& store, const std::string& gate, const CheckResult& tonight);

}  // namespace kvscope
