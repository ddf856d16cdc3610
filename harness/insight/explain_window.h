// Why did an arm predict a text worse? The tokens it lost most on, which evicted tokens it would
// have looked at there, and how much of the loss comes back when these never leave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/sample.h"
#include "harness/insight/explain_answers.h"

namespace kvscope {

struct WorstToken {
  int position = 0;  // of the predicted token
  std::int32_t token_id = 0;
  double full_nll_nats = 0.0;
  double arm_nll_nats = 0.0;
  double kl_nats = 0.0;
};

struct WindowTrial {
  std::string what;  // local | paired | random
  std::uint64_t seed = 0;
  std::vector<std::int32_t> positions;
  double nll_nats = 0.0;        // mean over the scored tokens
  double worst_nll_nats = 0.0;  // mean over the worst ones
  std::int64_t kv_bytes = 0;
  std::string error = {};
};

struct WindowReport {
  std::string sample_key;
  std::string error;
  bool in_stream = true;       // the policy acts from the first token on: given tokens never leave
  double full_nll_nats = 0.0;  // means over the scored tokens
  double arm_nll_nats = 0.0;
  double full_worst_nll_nats = 0.0;  // means over the worst ones
  double arm_worst_nll_nats = 0.0;
  std::int64_t full_kv_bytes = 0;
  std::int64_t arm_kv_bytes = 0;
  std::vector<WorstToken> worst;  // largest loss first
  TopTokens top;                  // local where it is defined, else paired
  std::vector<WindowTrial> trials;

  // Share of a loss that a trial brought back; NaN where there was none.
  double recovered(const WindowTrial& trial) const;
  double recovered_of_worst(const WindowTrial& trial) const;
};

inline constexpr int kWorstTokens = 8;

// `scorer` and `wanted` are not used. nullopt: stopped.
std::optional<WindowReport> explain_window(const ExplainRequest& request, const TextWindow& window);

}  // namespace kvscope
