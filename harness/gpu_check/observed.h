// What a backend makes of given work, kept to be held against what another one makes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/engine/ledger.h"
#include "runner/model/config.h"

namespace kvscope {

struct AgreementWork {
  ModelConfig config;
  DType dtype = DType::kF32;  // of weights and cache
  int score_tokens = 512;     // the second half is scored
  int prompt_tokens = 512;    // of one needle-like prompt; two qa-like ones are half as long
  int answer_tokens = 16;
};

// What one backend made of one arm.
struct Observed {
  std::string error;
  std::vector<double> nll_nats;           // of given tokens: scored, or the gold answer's
  std::vector<double> kl_nats;            // from the full arm, where both follow the same tokens
  std::vector<std::int32_t> answer;       // free-running, greedy
  std::vector<std::int32_t> full_answer;  // that kl_nats follow; empty: the given tokens
  std::vector<std::vector<std::int32_t>> kept;  // [n_layers * n_kv_heads] positions, ascending
  std::optional<double> rebound_mass;           // of the probe, with hit_at_32
  std::optional<double> hit_at_32;
  Ledger ledger;
};

struct CheckArm {
  const char* name;
  const char* policy;
  bool ranks;  // tokens by attention: rounding may change what stays
};
std::span<const CheckArm> check_arms();  // full first

struct ObservedWork {
  std::string name;            // score | needle | qa 1 | qa 2
  std::vector<Observed> arms;  // [check_arms()]
};

// Loads the work's model on `backend` and runs all of it.
std::vector<ObservedWork> observe(const AgreementWork& work, Backend& backend);

}  // namespace kvscope
