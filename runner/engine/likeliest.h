// The tokens that a model finds most likely next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

// Ids of the n largest logits (all, if there are fewer), largest first; the smaller id wins a tie.
// No logit may be NaN.
std::vector<std::int32_t> likeliest_tokens(std::span<const float> logits, int n);

}  // namespace kvscope
