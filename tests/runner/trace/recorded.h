// A recorded run in memory, from a tiny engine.
#pragma once

#include <mutex>
#include <vector>

#include "runner/trace/replay_policy.h"
#include "runner/trace/trace_replay.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope::testing {

struct Recorded {
  TraceFacts facts;
  std::vector<std::vector<float>> layers;  // [recorded][n_tokens * row_floats]

  TraceReplay::ReadLayer reader() const {
    return [this](std::size_t index) { return layers[index]; };
  }
};

inline Recorded record_all_layers(TinyEngine& tiny, const std::vector<std::int32_t>& ids,
                                  int prompt_tokens) {
  Recorded recorded;
  recorded.facts = facts_of(tiny.model);
  recorded.facts.n_tokens = int(ids.size());
  recorded.facts.prompt_tokens = prompt_tokens;
  ScoreRequest request;
  request.tokens = ids;
  request.first_scored = int(ids.size());
  request.full_rows = [&](int layer, std::span<const float> qkv) {
    recorded.facts.layers.push_back(layer);
    recorded.layers.emplace_back(qkv.begin(), qkv.end());
  };
  const ScoreArm full{fit("full", 0, int(ids.size()), true)};
  if (!tiny.engine.score(request, {&full, 1})) throw std::runtime_error("stopped");
  return recorded;
}

// Nothing where the policy is not one that a replay is defined for.
inline std::shared_ptr<const Policy> fit_for_replay(const std::string& text, int budget_tokens,
                                                    const Recorded& recorded, int prompt_tokens) {
  FitRequest request;
  request.budget.tokens = budget_tokens;
  request.in_stream = prompt_tokens == 0;
  request.length = request.in_stream ? recorded.facts.n_tokens : prompt_tokens;
  const PolicySpec spec = parse_policy(text);
  if (spec.is_full()) return nullptr;
  try {
    return fit_replay_policy(spec, request, recorded.facts);
  } catch (const std::exception& refused) {
    if (std::string(refused.what()).find("cannot be replayed") == std::string::npos) throw;
    return nullptr;
  }
}

// What each row of each unit saw.
class SeenRows final : public ProbeSink {
 public:
  struct Row {
    int layer, kv_head, query_head, position;
    std::vector<std::int32_t> visible;  // ascending
    std::vector<float> logits;          // by slot
  };
  std::vector<Row> rows;

  void prompt_cut(int, int, int, std::span<const std::int32_t>, std::span<const float>,
                  std::span<const std::int32_t>, std::span<const float>) override {}
  void attention_row(const AttentionRow& row) override {
    Row seen{row.layer, row.kv_head, row.query_head, row.position, {}, {}};
    seen.visible.assign(row.visible_positions.begin(), row.visible_positions.end());
    std::sort(seen.visible.begin(), seen.visible.end());
    seen.logits.assign(row.visible_logits.begin(), row.visible_logits.end());
    const std::lock_guard lock(mutex_);
    rows.push_back(std::move(seen));
  }
  void evicted(int, int, int, int, int) override {}

 private:
  std::mutex mutex_;
};

}  // namespace kvscope::testing
