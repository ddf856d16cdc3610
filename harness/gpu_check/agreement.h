// Does a backend compute what another one computes? Both run the same work on the same random
// model: a text that is scored, and prompts that are answered, under the full cache and three
// policies; what comes out is held against each other row by row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/gpu_check/observed.h"
#include "harness/report/json.h"

namespace kvscope {

// The largest differences that rounding explains. Two backends add in another order, which moves
// products by 1e-7 of their size (f32), or moves one in some thousand activations to the next bf16
// value; a policy that ranks tokens then keeps another one where two are as good.
struct AgreementLimits {
  double mean_nll_nats = 0.0;
  double max_nll_nats = 0.0;
  double max_kl_nats = 0.0;
  double least_kept = 1.0;  // share of the kept tokens, over all heads, that both kept
  double probe = 0.0;
  bool same_answer = false;
};
// ranks: the arm's selection depends on attention (h2o, snapkv; not full and streaming_llm).
AgreementLimits agreement_limits(DType dtype, int n_layers, bool ranks);

struct AgreementRow {
  std::string model;
  DType dtype = DType::kF32;
  std::string work;  // score | needle | qa 1 | qa 2
  std::string arm;
  double mean_nll_nats = 0.0;  // of the differences
  double max_nll_nats = 0.0;
  double max_kl_nats = 0.0;
  double kept = 1.0;
  std::optional<double> probe;    // of rebound mass or hit@32; nothing without a probe or where
                                  // the answers differ
  std::size_t answer_agrees = 0;  // leading tokens
  std::size_t answer_tokens = 0;
  bool same_bytes = false;          // of the whole ledger
  std::vector<std::string> faults;  // beyond the limits; none: it agrees
};

// Pure: the row but for its names.
AgreementRow compare_observed(const Observed& reference, const Observed& tested,
                              const AgreementLimits& limits);

bool same_ledger(const Ledger& a, const Ledger& b);

std::vector<AgreementRow> compare_backends(const AgreementWork& work, Backend& reference,
                                           Backend& tested);

std::string agreement_text(const std::vector<AgreementRow>& rows);  // a table
Json agreement_json(const std::vector<AgreementRow>& rows);

}  // namespace kvscope
