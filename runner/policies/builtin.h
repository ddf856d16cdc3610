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
PolicyInfo lru_policy();
PolicyInfo scissorhands_policy();
PolicyInfo knorm_policy();
PolicyInfo keydiff_policy();
PolicyInfo expected_attention_policy();
PolicyInfo cake_policy();
PolicyInfo paged_eviction_policy();
PolicyInfo quest_policy();

}  // namespace kvscope
