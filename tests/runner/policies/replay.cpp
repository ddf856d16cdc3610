#include "tests/runner/policies/replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runner/policies/rule_state.h"

namespace kvscope::testing {

AttentionTable::AttentionTable(int heads, int tokens)
    : n_heads(heads),
      n_tokens(tokens),
      weights(static_cast<std::size_t>(heads) * tokens * tokens, 1.0) {}

double& AttentionTable::at(int head, int row, int token) {
  return weights[(static_cast<std::size_t>(head) * n_tokens + row) * n_tokens + token];
}

double AttentionTable::at(int head, int row, int token) const {
  return weights[(static_cast<std::size_t>(head) * n_tokens + row) * n_tokens + token];
}

std::vector<float> probabilities(const AttentionTable& table, int first, int n_heads, int row,
                                 const Positions& visible) {
  std::vector<float> result;
  for (int h = first; h < first + n_heads; ++h) {
    double sum = 0.0;
    for (const auto i : visible) sum += table.at(h, row, i);
    for (const auto i : visible) result.push_back(static_cast<float>(table.at(h, row, i) / sum));
  }
  return result;
}

std::vector<float> column_weights(const AttentionTable& table, const PromptNeed& need,
                                  int prompt_tokens) {
  if (need.rows == PromptNeed::Rows::kNone) return {};
  const int rows =
      need.rows == PromptNeed::Rows::kAll ? prompt_tokens : std::min(need.last_rows, prompt_tokens);
  std::vector<float> result;
  for (int h = 0; h < table.n_heads; ++h) {
    std::vector<double> sums(prompt_tokens, 0.0);
    for (int u = prompt_tokens - rows; u < prompt_tokens; ++u) {
      const double weight =
          std::pow(static_cast<double>(need.decay), prompt_tokens - 1 - u) / (need.mean ? rows : 1);
      double row_sum = 0.0;
      for (int i = 0; i <= u; ++i) row_sum += table.at(h, u, i);
      for (int i = 0; i <= u; ++i) sums[i] += weight * table.at(h, u, i) / row_sum;
    }
    for (const double sum : sums) result.push_back(static_cast<float>(sum));
  }
  return result;
}

std::shared_ptr<const Policy> fitted(const std::string& text, int budget_tokens, int length,
                                     bool in_stream) {
  FitRequest request;
  request.budget.tokens = budget_tokens;
  request.length = length;
  request.in_stream = in_stream;
  return fit_policy(parse_policy(text), request);
}

Replay::Replay(std::shared_ptr<const Policy> policy, const AttentionTable& table, int n_kv_heads,
               int layer)
    : policy_(std::move(policy)), table_(table), n_kv_heads_(n_kv_heads), layer_(layer) {
  const auto rule = policy_->scan_rule();
  const bool one_set = rule && rule->scope == ScanRule::Scope::kLayer;
  units_.resize(one_set ? 1 : n_kv_heads);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    units_[u].state = policy_->make_state({layer_, u}, {});
  }
}

void Replay::stream_prompt(int prompt_tokens) {
  const auto rule = policy_->streaming_rule();
  const std::size_t after = units_.size();
  const bool one_set = rule && rule->scope == ScanRule::Scope::kLayer;
  units_ = std::vector<Unit>(one_set ? 1 : n_kv_heads_);
  for (int u = 0; rule && u < static_cast<int>(units_.size()); ++u) {
    units_[u].state = std::make_unique<RuleState>(*rule, UnitPlace{layer_, u}, KeptHead{});
  }
  for (int t = 0; t < prompt_tokens; t += policy_->chunk()) {
    chunk(t, std::min(t + policy_->chunk(), prompt_tokens) - 1);
  }
  if (policy_->scan_rule() == rule) return;
  // Another rule takes over, from zero scores.
  std::vector<Unit> units(after);
  for (int u = 0; u < static_cast<int>(after); ++u) {
    units[u].visible = visible(u);
    KeptHead head;
    units[u].kept = head.positions = kept(u);
    units[u].state = policy_->make_state({layer_, u}, head);
  }
  units_ = std::move(units);
}

void Replay::prompt(int prompt_tokens) {
  if (policy_->prefill() == PrefillMode::kStreaming) return stream_prompt(prompt_tokens);
  const auto weights = column_weights(table_, policy_->prompt_need(), prompt_tokens);
  PromptLayer layer;
  layer.layer = layer_;
  layer.n_layers = layer_ + 1;
  layer.n_heads = table_.n_heads;
  layer.n_kv_heads = n_kv_heads_;
  layer.prompt_tokens = prompt_tokens;
  layer.column_weights = weights;
  cut_ = policy_->select_prompt(layer);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    units_[u].visible.resize(prompt_tokens);
    std::iota(units_[u].visible.begin(), units_[u].visible.end(), 0);
    units_[u].kept = cut_[u].positions;
    units_[u].state = policy_->make_state({layer_, u}, cut_[u]);
  }
}

void Replay::chunk(int first, int last) {
  const int heads = table_.n_heads / static_cast<int>(units_.size());
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    Unit& unit = units_[u];
    unit.visible = unit.kept;
    for (int token = first; token <= last; ++token) {
      unit.visible.push_back(token);
      if (!unit.state) continue;
      const auto a = probabilities(table_, u * heads, heads, token, unit.visible);
      unit.state->observe({unit.visible, a, heads});
    }
    unit.kept = unit.visible;
    if (!unit.state) continue;
    const auto slots = unit.state->select(unit.visible);
    unit.kept.clear();
    for (const auto slot : slots) unit.kept.push_back(unit.visible[slot]);
    unit.state->compact(slots);
  }
}

}  // namespace kvscope::testing
