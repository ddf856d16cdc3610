// CAKE's layer budgets while a prompt's layers are filled in order (policies.md 2.12, "cascading").
#pragma once

#include <memory>
#include <vector>

#include "runner/policies/cake_scores.h"
#include "runner/policies/prompt_layer.h"

namespace kvscope {

class FittedPolicy;

// Statistics of the last `window` rows: one entry per KV head.
std::vector<CakeWindow> cake_windows(const PromptLayer& layer, int window);

// policy must outlive it. at_end: keeps everything until the last layer is there (two-pass
// prefill), then cuts all at once.
std::unique_ptr<PromptCascade> make_cake_cascade(const FittedPolicy& policy, int budget_tokens,
                                                 bool at_end);

}  // namespace kvscope
