// Everything one sequence (an arm, or a row forked from it) holds between rows.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/engine/account.h"
#include "runner/policies/policy.h"

namespace kvscope {

struct Sequence {
  std::vector<HeadCache> heads;    // [n_layers][n_kv_heads]
  std::vector<GhostCache> ghosts;  // the same, or empty: where a probe watches, in its layers
  std::vector<std::unique_ptr<PolicyState>>
      host;  // [n_layers][n_kv_heads] (first head of a unit), or empty: rules run as data
  std::vector<QuestPages> read_pages;  // [n_layers][n_kv_heads], or empty: rows read everything
  std::vector<int> budget_tokens;      // [n_layers][n_kv_heads] of the unit; 0: the rule's own
  std::string failure;  // of a prompt's cut, or of a state that another rule has replaced

  // Why its rule failed (PolicyState::error()); empty: it did not.
  std::string rule_error() const;
  Sequence fork() const;  // shares pages until one side writes; no ghosts
};

// Rows of one sequence within the buffers of a layer.
struct RowSpan {
  const float* qkv = nullptr;  // [n_rows][row_floats]
  float* out = nullptr;        // [n_rows][n_heads * head_dim]
  int n_rows = 0;
  int first_position = 0;
  int rows_before = 0;  // of the same stretch, in earlier spans
  int rows_after = 0;   // likewise, in later ones
};

// How rows advance a sequence. A rule that does not evict lets the cache grow.
struct RowRule {
  ScanRule rule;
  PositionMode positions = PositionMode::kAbsolute;
  int chunk = 1;
  ProbeSink* probe = nullptr;
  std::optional<ReadRule> read = {};
  bool streaming = false;  // rows of a streamed prompt: they run under the score's own rule
};

// The probe if it asks for something in the layer, else nullptr; whether it wants ghosts there.
ProbeSink* probe_of_layer(ProbeSink* probe, int layer);
bool wants_ghosts(const ProbeSink* probe, int layer);

// One job per selection unit of the layer. steps: [n_kv_heads][n_rows].
void add_scan_jobs(std::vector<ScanJob>& jobs, Sequence& sequence, int layer,
                   const AttentionShape& shape, const RowRule& how, const RowSpan& rows,
                   StepSlots* steps);

// Puts a layer's per-slot state into what `rule` starts from: zeros, or what the prompt kept (one
// entry per KV head, or none).
void start_rule(Sequence& sequence, int layer, const AttentionShape& shape, const RowRule& how,
                std::span<const KeptHead> kept);

// start_rule() and, where rules run as host code, their states; budgets of the units. kept: as
// start_rule()'s.
void start_unit_states(Sequence& sequence, int layer, int n_layers, const AttentionShape& shape,
                       const Policy& policy, const RowRule& how, std::span<const KeptHead> kept);

// The same entry with its arrays in the order of `slots` (the same positions).
KeptHead in_slot_order(KeptHead kept, std::span<const std::int32_t> slots);

// Pages and metadata that one layer holds, host rules' state included.
std::int64_t layer_bytes(const Sequence& sequence, int layer, int n_kv_heads);

// What those bytes are; adds the layer's.
void add_layer_kinds(const Sequence& sequence, int layer, int n_kv_heads, KvBytesByKind& kinds);

// Credits a layer's steps to the arm's account.
void add_steps(Account& account, std::size_t first_row, int n_rows, const AttentionShape& shape,
               const RowRule& how, const StepSlots* steps);

}  // namespace kvscope
