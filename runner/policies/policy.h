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

#include "runner/policies/scan_rule.h"

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

// Attention statistics of the dense prompt that a policy asks for: w(i) = Σ_u weight_u · a_u(i),
// for every query head.
struct PromptNeed {
  enum class Rows : std::uint8_t { kNone, kLast, kAll } rows = Rows::kNone;
  int last_rows = 0;   // for kLast: the newest rows of the prompt
  float decay = 1.0F;  // weight_u = decay^(P-1-u)
  bool mean = false;   // weights divided by the number of rows
  bool operator==(const PromptNeed&) const = default;
};

// One layer's dense prompt as a policy sees it.
struct PromptLayer {
  int layer = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int prompt_tokens = 0;                  // P
  std::span<const float> column_weights;  // [n_heads][P], empty for Rows::kNone
};

// What one KV head keeps. `statistic` and `count` start the in-stream rule; empty if it has none.
struct KeptHead {
  std::vector<std::int32_t> positions;  // ascending original positions
  std::vector<float> statistic;         // [positions.size()]
  std::vector<std::uint32_t>
      count;  // [positions.size()]: rows that saw the token (Statistic::kMean)
  int nan_scores =
      0;  // scores of the cut that were NaN; those tokens leave first (policies.md 1.4)
};

// What one attention row saw, for host rules. The newest token is the last slot.
struct VisibleRow {
  std::span<const std::int32_t> positions;  // [n_slots] original position by slot
  std::span<const float>
      probabilities;  // [n_query_heads][n_slots]; the group (scope head) or all heads of the layer
  int n_query_heads = 0;
};

// The in-stream rule of one selection unit (a KV head, or a layer for Scope::kLayer) as host code.
class PolicyState {
 public:
  virtual ~PolicyState() = default;
  virtual std::unique_ptr<PolicyState> clone() const = 0;
  virtual void observe(const VisibleRow& row) = 0;
  // Slots that stay, ascending, at most the budget; pure.
  virtual std::vector<std::int32_t> select(std::span<const std::int32_t> positions) const = 0;
  // New slot i was old slot old_slot_of[i].
  virtual void compact(std::span<const std::int32_t> old_slot_of) = 0;
  // NaN attention values observed so far (policies.md 1.4).
  virtual std::uint64_t nan_scores() const { return 0; }
};

// Where a unit is; random priorities depend on it.
struct UnitPlace {
  int layer = 0;
  int kv_head = 0;  // 0 for Scope::kLayer
};

// A policy with all parameters filled in and fitted to one budget and prompt length. Immutable,
// shared by threads.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual PromptNeed prompt_need() const = 0;
  // The prompt-end cut of one layer: one entry per KV head, each at most budget_tokens() (mean over
  // heads for ragged policies). Pure.
  virtual std::vector<KeptHead> select_prompt(const PromptLayer& layer) const = 0;
  // The rule for rows after the prompt (or from the first token on, in stream); nullopt: the cache
  // grows.
  virtual std::optional<ScanRule> scan_rule() const = 0;
  // The score's own in-stream rule, which a streamed prompt runs under whatever happens after it
  // (`decode=`).
  virtual std::optional<ScanRule> streaming_rule() const { return scan_rule(); }
  // The same rule as host code, started from what the prompt kept (empty in stream); nullptr iff
  // scan_rule() is nullopt.
  virtual std::unique_ptr<PolicyState> make_state(UnitPlace place, const KeptHead& start) const = 0;

  // Common parts, set by fit_policy().
  bool never_evicts() const { return never_evicts_; }  // full, or a ratio of 1000 permille
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
  PositionMode positions_ = PositionMode::kAbsolute;
  PrefillMode prefill_ = PrefillMode::kMonolithic;
  std::map<std::string, std::string> fitted_params_;
};

}  // namespace kvscope
