// PyramidKV's budgets of the layers, as pure functions.
#pragma once

#include <vector>

namespace kvscope {

// Kept tokens by layer, window included: [n_layers]; non-increasing, within
// [window, prompt_tokens], sum n_layers * min(budget, prompt_tokens).
// budget: mean by layer, window included; window <= budget; beta >= 1, larger is steeper.
std::vector<int> pyramid_budgets(int n_layers, int budget, int window, int prompt_tokens,
                                 double beta);

// compat=kvpress: the sum is not exact, and a pyramid that does not fit is uniform. The budget is
// real because kvpress does not truncate it: pass prompt_tokens * kept fraction.
std::vector<int> pyramid_budgets_kvpress(int n_layers, double budget, int window, int prompt_tokens,
                                         double beta);

}  // namespace kvscope
