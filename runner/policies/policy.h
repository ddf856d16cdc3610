// What a policy is: declared needs, a pure selection at the prompt's end, and an in-stream rule
// twice (as data and as host code). A policy never sees a backend. policies.md is normative.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/policies/policy_state.h"
#include "runner/policies/prompt_layer.h"
#include "runner/policies/scan_rule.h"
#include "runner/policies/storage.h"

namespace kvscope {

enum class PositionMode { kAbsolute, kCacheRelative, kRerotate };  // policies.md 1.6
enum class PrefillMode {
  kInStream,
  kMonolithic,
  kStreaming,
  kTwoPass
};  // policies.md 1.2; kInStream: no prompt at all
enum class DecodeMode {
  kSelf,
  kGrow,
  kWindow,
  kTova,
  kH2o
};  // what happens after the prompt's end

std::string_view name_of(PositionMode);  // "absolute", "cache_relative", "rerotate"
std::string_view name_of(PrefillMode);   // "in_stream", "monolithic", "streaming", "two_pass"
std::string_view name_of(DecodeMode);    // "self", "grow", "window", "tova", "h2o"

// A policy with all parameters filled in and fitted to one budget and prompt length. Immutable,
// shared by threads.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual PromptNeed prompt_need() const = 0;
  // The prompt-end cut of one layer: one entry per KV head, each at most its budget_tokens. Pure.
  virtual std::vector<KeptHead> select_prompt(const PromptLayer& layer) const = 0;
  // Where layers share one total: what cuts them instead of select_prompt(), for one prompt.
  virtual std::unique_ptr<PromptCascade> make_cascade() const { return nullptr; }
  // The rule for rows after the prompt (or from the first token on, in stream); nullopt: the cache
  // grows.
  virtual std::optional<ScanRule> scan_rule() const = 0;
  // The score's own in-stream rule, which a streamed prompt runs under whatever happens after it
  // (`decode=`).
  virtual std::optional<ScanRule> streaming_rule() const { return scan_rule(); }
  // The same rule as host code, started from what the prompt kept (empty in stream); nullptr iff
  // scan_rule() is nullopt.
  virtual std::unique_ptr<PolicyState> make_state(UnitPlace place, const KeptHead& start) const = 0;
  // streaming_rule() as host code, before the first token; nullptr iff there is none.
  virtual std::unique_ptr<PolicyState> make_streaming_state(UnitPlace place) const {
    return make_state(place, {});
  }
  // Most tokens that a unit attends over once its cache is full.
  virtual int most_slots(bool in_stream) const { return budget_tokens_ + (in_stream ? 1 : chunk_); }
  // Of a unit that starts without a prompt's cut.
  virtual int unit_budget(UnitPlace) const { return budget_tokens_; }
  // Which cached tokens a row attends to where not all (selection without eviction).
  virtual std::optional<ReadRule> read_rule() const { return std::nullopt; }

  // Common parts, set by fit_policy().
  bool never_evicts() const { return never_evicts_; }  // full, or a ratio of 1000 permille
  // The arm is the dense rows themselves: nothing is evicted, selected, quantised or left out.
  bool is_dense() const { return never_evicts_ && !storage_.is_quantised() && !sparse_prefill_; }
  const Storage& storage() const { return storage_; }
  const std::optional<SparsePrefill>& sparse_prefill() const { return sparse_prefill_; }
  int every() const { return every_; }  // rows after the prompt between selections
  int budget_tokens() const { return budget_tokens_; }
  PositionMode positions() const { return positions_; }
  PrefillMode prefill() const { return prefill_; }  // of the arm, for rows of a prompt
  int chunk() const { return chunk_; }              // of streaming prefill
  // False: needs a prompt and acts at its end only.
  bool acts_in_stream() const { return acts_in_stream_; }
  // As really used, for the record.
  const std::map<std::string, std::string>& fitted_params() const { return fitted_params_; }

 protected:
  friend std::shared_ptr<const Policy> finish_policy(std::unique_ptr<Policy>,
                                                     const struct PolicySpec&,
                                                     const struct FitRequest&);
  bool never_evicts_ = false;
  bool acts_in_stream_ = true;
  int budget_tokens_ = 0;
  int chunk_ = 1;
  int every_ = 1;
  Storage storage_;
  std::optional<SparsePrefill> sparse_prefill_;
  PositionMode positions_ = PositionMode::kAbsolute;
  PrefillMode prefill_ = PrefillMode::kMonolithic;
  std::map<std::string, std::string> fitted_params_;
};

}  // namespace kvscope
