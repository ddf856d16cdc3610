#include "metrics/probes/entropy.h"

#include <cmath>

#include "runner/base/exp_weights.h"

namespace kvscope {

RowEntropy row_entropy(std::span<const float> logits) {
  // Shifted by the largest logit, so that large logits do not cancel in LSE - sum p·z.
  const double shift = double(largest(logits));
  double sum = 0;
  double weighted = 0;
  for (const float logit : logits) {
    const double z = double(logit) - shift;
    const double weight = std::exp(z);
    sum += weight;
    weighted += weight > 0 ? weight * z : 0;
  }
  RowEntropy result;
  result.lse = shift + std::log(sum);
  result.entropy_nats = std::log(sum) - weighted / sum;
  result.effective_tokens = std::exp(result.entropy_nats);
  return result;
}

}  // namespace kvscope
