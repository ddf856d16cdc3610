// Plain rows of the store. Keys are sha-256 over content, so that the same thing has the same key
// in every database.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/probes/event_log.h"
#include "metrics/probes/probe_summary.h"
#include "runner/engine/ledger.h"

namespace kvscope {

struct ModelRecord {
  std::string key;  // Model::key(): name, weights, shape, both dtypes and the backend
  std::string name;
  std::string weights_sha256;
  std::string dtype;
  std::string kv_dtype;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int context_length = 0;
  std::string backend = "cpu";
};

struct DatasetRecord {
  std::string key;   // Dataset::key()
  std::string task;  // registry name of the task that scores it
  std::string name;
  std::string version;
  int n_samples = 0;
};

struct SampleRecord {
  std::string sample_key;    // stable name inside the data set
  std::string input_sha256;  // the tokens the model really sees: pairs are valid only when equal
  std::string cluster_key;   // unit of independent draw
  int n_prompt_tokens = 0;
  std::map<std::string, std::string> tags;
};

struct PolicyRecord {
  std::string canonical;  // PolicySpec::canonical, the label
  std::string name;       // registry name of the score
  std::map<std::string, std::string> params;

  std::string key() const;  // sha-256 over the canonical text
};

// One thing to be compared. Without data set: an arm's results on all tasks of a sweep stand under
// one row.
struct ArmRecord {
  std::string key;  // sha-256 over model key, policy, budget, modes (plan.h)
  std::string model_key;
  PolicyRecord policy;
  std::optional<int> budget_permille;  // exactly one of the two is set; `full` is 1000 permille
  std::optional<int> budget_tokens;
  std::string prefill_mode;         // what the arm asks for: monolithic | streaming | two_pass
  std::string position_mode;        // absolute | cache_relative | rerotate
  std::string question_visibility;  // visible: the prompt ends with the question; hidden: it comes
                                    // after the cut
  std::string dtype;
  std::string kv_dtype;
  bool is_reference = false;  // the full-cache arm that all others are paired with
};

struct SweepRecord {
  std::string uuid;
  std::string plan_hash;
  std::string program_version;
  std::string options_json;  // the options with defaults filled in
};

// One process.
struct RunRecord {
  std::string uuid;
  std::string sweep_uuid;
  std::string program_version;
  std::string git_sha;
  bool git_dirty = false;
  std::string host;
  std::string backend;    // Backend::description()
  std::string argv_json;  // JSON array
};

// The name in metric_infos() of what probes call `name`: estimates from sampled rows have their
// own.
std::string probe_metric(std::string_view name, const ProbeSummary& summary);

// The probe's quantities of a summary under their names in metric_infos().
struct NamedProbe {
  std::string metric;
  const ProbeMetric& values;
};
std::vector<NamedProbe> named_probes(const ProbeSummary& summary);

// A metric by layer or by step bin that is no attention probe: KV bytes, KL and top-1 agreement of
// forced rows.
struct BinnedMetric {
  std::string metric;
  std::vector<RunningStat> by_layer;     // may be empty
  std::vector<RunningStat> by_step_bin;  // step_bins.h; may be empty
  std::optional<Sketch> sketch = {};     // of all values
};

// An arm that did not do what was asked of it (identity_check.h).
enum class IdentityFinding {
  kHeldEverything,   // the budget held all tokens, so that there was nothing to evict
  kEvictedNothing,   // it did not, and nothing was evicted all the same
  kOtherRatio,       // other than the budget stayed after the selection
  kOtherRatioLater,  // the selection was as asked, what stayed after the last row is not
};
std::string_view name_of(IdentityFinding finding);

// Which tokens an arm kept of those that it chose from.
struct KeptSets {
  std::string kept_sets_hash;  // sha-256 over the positions that each (layer, KV head) kept
  int budget_tokens = 0;       // asked for, fitted to the sample
  int offered_tokens = 0;      // that each (layer, KV head) chose from
  double kept_tokens = 0.0;    // of them, mean over layers and KV heads
  double final_tokens = 0.0;   // resident after the last row, likewise
  std::optional<IdentityFinding> finding;
};

enum class RunStatus { kRunning, kFinished, kFailed, kInterrupted };
std::string_view name_of(RunStatus status);

enum class OutcomeStatus { kOk, kError, kSkipped };
std::string_view name_of(OutcomeStatus status);

// A rebound event with what is known beside it.
struct EventRecord {
  ReboundEvent event;
  std::string token;  // text of the evicted one
  std::optional<double> kl_full_nats;
};

// How much of a sample's evidence each (layer, KV head) held.
struct EvidenceTrace {
  int rows_fed = 0;                 // since the prompt
  int n_tokens = 0;                 // of the evidence
  std::vector<std::int32_t> alive;  // [n_layers * n_kv_heads]
};

// What one arm did on one sample: becomes one transaction.
struct SampleOutcome {
  OutcomeStatus status = OutcomeStatus::kOk;
  std::string error_kind;  // "" when ok; does_not_fit | beyond_context | no_question |
                           // nonfinite | engine
  std::string error;       // one line for people
  std::string mode_run;    // in_stream | monolithic | streaming | two_pass: what really ran
  std::vector<std::pair<std::string, double>> metrics;  // names of metric_infos(), finite
  std::optional<ProbeSummary> probes;  // per layer and step bin; of the scored or free-running rows

  std::vector<BinnedMetric> binned;

  bool has_output = false;
  std::string output_text;
  std::vector<std::int32_t> output_ids;
  std::string gold_text;

  int trace_first_position = 0;  // of the first predicted token
  std::vector<float> trace_nll_nats;
  std::vector<float> trace_kl_nats;  // empty or as long as the other

  std::vector<EventRecord> events;      // of a traced sample, the heaviest first
  std::vector<EvidenceTrace> evidence;  // of a traced sample

  Ledger ledger;
  std::optional<KeptSets> kept_sets;
  double duration_seconds = 0.0;  // the arm's share of the batch
  double prefill_seconds = 0.0;
  double decode_seconds_per_step = 0.0;
  int n_prompt_tokens = 0;  // processed
  int n_decode_steps = 0;
  int n_compared = 0;  // predictions behind kl_full_nats and top1_agreement
  std::map<std::string, std::string> fitted_params;  // the policy's parameters as really used

  std::optional<double> metric(std::string_view name) const;
};

SampleOutcome skipped_outcome(std::string kind, std::string reason);
SampleOutcome error_outcome(std::string kind, std::string reason);

// A result with a NaN or infinite number (metric, probe or trace) becomes an `error` row of kind
// nonfinite: such numbers are never stored.
SampleOutcome refuse_nonfinite(SampleOutcome outcome);

}  // namespace kvscope
