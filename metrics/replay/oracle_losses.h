// The four oracles of policies.md 8.7 on one (layer, KV head) of a trace.
#pragma once

#include <optional>

#include "metrics/oracle/oracles.h"

namespace kvscope {

struct OracleLosses {
  double step = 0.0;
  double optimal = 0.0;
  double greedy = 0.0;
  std::optional<double> prefill;  // nothing in stream: there is no prompt's end
};

// has_prompt: attention.prompt_tokens is a real prompt.
OracleLosses oracle_losses(const DecodeAttention<float>& attention, const FutureMass& future,
                           OracleSetting setting, bool has_prompt);

}  // namespace kvscope
