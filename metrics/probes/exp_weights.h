// exp in float over whole rows: the probes need it for every logit of every row.
#pragma once

#include <span>

namespace kvscope {

// out[i] = e^(logits[i] - shift), for logits <= shift; 0 below -87.68, where float nears its
// subnormals. NaN stays NaN. out: [n], may be logits itself. Largest relative error 8.7e-8
// (measured over 2^24 values in [-87, 0] against long double).
void exp_below(std::span<const float> logits, float shift, std::span<float> out);

// Largest value; -infinity of nothing. NaNs may or may not be seen.
float largest(std::span<const float> values);

struct ExpSum {
  float largest_logit = 0;
  double sum = 0;      // of the weights, accumulated in double; 0 of nothing
  double lse() const;  // log-sum-exp of the logits; -infinity of nothing
};

// weights[i] = e^(logits[i] - largest), not normalised. weights: [n]. Not finite if a logit is NaN
// or +infinity.
ExpSum exp_weights(std::span<const float> logits, std::span<float> weights);

}  // namespace kvscope
