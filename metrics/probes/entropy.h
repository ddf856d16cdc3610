// Entropy of an attention row (policies.md 8.5).
#pragma once

#include <span>

namespace kvscope {

struct RowEntropy {
  double lse = 0;               // log-sum-exp of the logits
  double entropy_nats = 0;      // H = LSE - sum of p·z
  double effective_tokens = 0;  // e^H
};

// logits: at least one, finite.
RowEntropy row_entropy(std::span<const float> logits);

}  // namespace kvscope
