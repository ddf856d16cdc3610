// The entry of each built-in policy; registry.cpp collects them.
#pragma once

#include "runner/policies/registry.h"

namespace kvscope {

PolicyInfo full_policy();
PolicyInfo sliding_window_policy();
PolicyInfo streaming_llm_policy();
PolicyInfo random_policy();
PolicyInfo h2o_policy();
PolicyInfo tova_policy();
PolicyInfo snapkv_policy();

}  // namespace kvscope
