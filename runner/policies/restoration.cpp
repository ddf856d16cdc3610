#include "runner/policies/restoration.h"

#include <algorithm>
#include <iterator>

#include "runner/policies/registry.h"
#include "runner/policies/restored_state.h"

namespace kvscope {
namespace {

using Positions = std::vector<std::int32_t>;

// The rule as host code alone: bits of both are the same, and only host code can be shown fewer
// slots. What else the rule says stays, so that two rules still differ and units keep their scope.
std::optional<ScanRule> as_host(std::optional<ScanRule> rule) {
  if (!rule) return rule;
  rule->host_slot_bytes = slot_state_bytes(*rule);
  rule->top_k = int(rule->statistic);  // without meaning there
  rule->statistic = ScanRule::Statistic::kHost;
  // Its bytes are counted above.
  if (rule->victim == ScanRule::Victim::kPriority) rule->victim = ScanRule::Victim::kLowest;
  return rule;
}

bool has_layer_scope(const std::optional<ScanRule>& rule) {
  return rule && rule->evicts() && rule->scope == ScanRule::Scope::kLayer;
}

// `kept` without its i-th entries for which drop(i).
template <typename Drop>
KeptHead without(const KeptHead& kept, const Drop& drop) {
  KeptHead rest = kept;
  rest.positions.clear();
  rest.statistic.clear();
  rest.count.clear();
  Positions old_slot_of;
  for (std::size_t i = 0; i < kept.positions.size(); ++i) {
    if (drop(i)) continue;
    old_slot_of.push_back(std::int32_t(i));
    rest.positions.push_back(kept.positions[i]);
    if (!kept.statistic.empty()) rest.statistic.push_back(kept.statistic[i]);
    if (!kept.count.empty()) rest.count.push_back(kept.count[i]);
  }
  if (kept.state != nullptr && old_slot_of.size() < kept.positions.size()) {
    auto state = kept.state->clone();
    state->compact(old_slot_of);
    rest.state = std::move(state);
  }
  return rest;
}

class RestoringPolicy final : public Policy {
 public:
  RestoringPolicy(std::shared_ptr<const Policy> inner, Restoration restoration)
      : inner_(std::move(inner)),
        room_(restoration.room),
        n_kv_heads_(restoration.n_kv_heads),
        rule_(as_host(inner_->scan_rule())),
        streaming_rule_(as_host(inner_->streaming_rule())) {
    never_evicts_ = inner_->never_evicts();
    acts_in_stream_ = inner_->acts_in_stream();
    budget_tokens_ = inner_->budget_tokens();
    chunk_ = inner_->chunk();
    every_ = inner_->every();
    storage_ = inner_->storage();
    sparse_prefill_ = inner_->sparse_prefill();
    positions_ = inner_->positions();
    prefill_ = inner_->prefill();
    fitted_params_ = inner_->fitted_params();
    if (has_layer_scope(rule_) || (streams() && has_layer_scope(streaming_rule_)))
      share_within_layers(restoration.positions);
    for (Positions& positions : restoration.positions) {
      most_given_ = std::max(most_given_, int(positions.size()));
      given_.push_back(std::make_shared<const Positions>(std::move(positions)));
    }
    if (room_ == Restoration::Room::kWithin) require_room();
  }

  PromptNeed prompt_need() const override {
    PromptNeed need = inner_->prompt_need();
    if (room_ == Restoration::Room::kWithin)
      need.replay_rows = std::max(need.replay_rows, Restoration::kWeighedRows);
    return need;
  }
  std::vector<KeptHead> select_prompt(const PromptLayer& layer) const override {
    return restored(inner_->select_prompt(layer), layer);
  }
  std::unique_ptr<PromptCascade> make_cascade() const override;
  std::optional<ScanRule> scan_rule() const override { return rule_; }
  std::optional<ScanRule> streaming_rule() const override { return streaming_rule_; }
  std::unique_ptr<PolicyState> make_state(UnitPlace place, const KeptHead& start) const override {
    if (!rule_) return nullptr;
    if (start.state != nullptr) return start.state->clone();  // made by restored()
    return state_beside(place, start, start);
  }
  std::unique_ptr<PolicyState> make_streaming_state(UnitPlace place) const override {
    auto state = inner_->make_streaming_state(place);
    if (state == nullptr) return nullptr;
    return std::make_unique<RestoredState>(std::move(state), given(place.layer, place.kv_head),
                                           Positions{});
  }
  int most_slots(bool in_stream) const override {
    return inner_->most_slots(in_stream) + (room_ == Restoration::Room::kBeside ? most_given_ : 0);
  }
  int unit_budget(UnitPlace place) const override { return inner_->unit_budget(place); }

  // What the policy kept of a layer, with the given tokens. layer: only its shape is read, but for
  // kWithin, which weighs its rows.
  std::vector<KeptHead> restored(const std::vector<KeptHead>& kept, const PromptLayer& layer) const;

 private:
  bool streams() const { return prefill_ == PrefillMode::kStreaming; }
  const std::shared_ptr<const Positions>& given(int layer, int kv_head) const {
    return given_[std::size_t(layer) * n_kv_heads_ + kv_head];
  }

  void share_within_layers(std::vector<Positions>& positions) const {
    for (std::size_t first = 0; first < positions.size(); first += n_kv_heads_) {
      Positions all;
      for (int h = 0; h < n_kv_heads_; ++h)
        all.insert(all.end(), positions[first + h].begin(), positions[first + h].end());
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      for (int h = 0; h < n_kv_heads_; ++h) positions[first + h] = all;
    }
  }

  void require_room() const {
    if (streams()) throw DoesNotFit("a streamed prompt has no cut that could make room");
    if (inner_->make_cascade() != nullptr)
      throw DoesNotFit("where layers share one total, tokens are restored beside it only");
    if (const auto rule = inner_->scan_rule();
        rule && rule->statistic == ScanRule::Statistic::kHost) {
      throw DoesNotFit("a rule that is host code holds its own budget: restore beside it only");
    }
    const int n_layers = int(given_.size()) / n_kv_heads_;
    for (int layer = 0; layer < n_layers; ++layer) {
      for (int h = 0; h < n_kv_heads_; ++h) {
        const int budget = inner_->unit_budget({layer, h, n_layers});
        const int n = int(given(layer, h)->size());
        if (n < budget) continue;
        throw DoesNotFit("to restore " + std::to_string(n) + " tokens within a budget of " +
                         std::to_string(budget) + " leaves none to the policy");
      }
    }
  }

  // The rule's state at a unit: kept is the policy's own, positions by slot are `start`'s.
  std::unique_ptr<PolicyState> state_beside(UnitPlace place, const KeptHead& kept,
                                            const KeptHead& start) const {
    const auto& tokens = given(place.layer, place.kv_head);
    KeptHead own = without(kept, [&](std::size_t i) {
      return std::binary_search(tokens->begin(), tokens->end(), kept.positions[i]);
    });
    if (room_ == Restoration::Room::kWithin) {
      const int budget = kept.budget_tokens > 0 ? kept.budget_tokens : inner_->unit_budget(place);
      own.budget_tokens = std::max(1, budget - int(tokens->size()));
    }
    auto state = inner_->make_state(place, own);
    if (state == nullptr) return nullptr;
    return std::make_unique<RestoredState>(std::move(state), tokens, start.positions);
  }

  void give_up_lightest(std::vector<KeptHead>& kept, const PromptLayer& layer) const;

  std::shared_ptr<const Policy> inner_;
  Restoration::Room room_;
  int n_kv_heads_;
  std::optional<ScanRule> rule_;
  std::optional<ScanRule> streaming_rule_;
  std::vector<std::shared_ptr<const Positions>> given_;  // [n_layers * n_kv_heads]
  int most_given_ = 0;
};

// Given tokens among the prompt's.
std::span<const std::int32_t> within_prompt(const Positions& given, int prompt_tokens) {
  const auto end = std::lower_bound(given.begin(), given.end(), prompt_tokens);
  return {given.begin(), end};
}

// Sum over query heads of each token's attention from the prompt's last rows: [units][P].
std::vector<std::vector<double>> recent_weights(const PromptLayer& layer, int n_units) {
  const int n = layer.prompt_tokens;
  const int heads_per_unit = layer.n_heads / n_units;
  std::vector<std::vector<double>> sums(n_units, std::vector<double>(n, 0.0));
  layer.rows->for_each(std::max(0, n - Restoration::kWeighedRows),
                       [&](int u, std::span<const float> probabilities, int stride) {
                         for (int h = 0; h < layer.n_heads; ++h) {
                           for (int i = 0; i <= u; ++i)
                             sums[h / heads_per_unit][i] +=
                                 probabilities[std::size_t(h) * stride + i];
                         }
                       });
  return sums;
}

void RestoringPolicy::give_up_lightest(std::vector<KeptHead>& kept,
                                       const PromptLayer& layer) const {
  const int n_units = has_layer_scope(rule_) ? 1 : layer.n_kv_heads;
  const auto weights = recent_weights(layer, n_units);
  for (int h = 0; h < layer.n_kv_heads; ++h) {
    const auto tokens = within_prompt(*given(layer.layer, h), layer.prompt_tokens);
    Positions missing;
    std::set_difference(tokens.begin(), tokens.end(), kept[h].positions.begin(),
                        kept[h].positions.end(), std::back_inserter(missing));
    Positions candidates;
    std::set_difference(kept[h].positions.begin(), kept[h].positions.end(), tokens.begin(),
                        tokens.end(), std::back_inserter(candidates));
    std::erase(candidates, layer.prompt_tokens - 1);
    if (candidates.size() < missing.size()) {
      kept[h].error = "to restore " + std::to_string(missing.size()) + " tokens, layer " +
                      std::to_string(layer.layer) + ", KV head " + std::to_string(h) +
                      " would have to give up more than the " + std::to_string(candidates.size()) +
                      " it can";
      missing.resize(candidates.size());
    }
    const std::vector<double>& weight = weights[h / (layer.n_kv_heads / n_units)];
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](std::int32_t a, std::int32_t b) { return weight[a] < weight[b]; });
    candidates.resize(missing.size());
    kept[h] = without(kept[h], [&](std::size_t i) {
      return std::find(candidates.begin(), candidates.end(), kept[h].positions[i]) !=
             candidates.end();
    });
  }
}

std::vector<KeptHead> RestoringPolicy::restored(const std::vector<KeptHead>& kept,
                                                const PromptLayer& layer) const {
  std::vector<KeptHead> own = kept;
  if (room_ == Restoration::Room::kWithin) give_up_lightest(own, layer);
  std::vector<KeptHead> all;
  const bool by_layer = has_layer_scope(rule_);
  const int heads_per_unit = by_layer ? layer.n_kv_heads : 1;
  for (int h = 0; h < layer.n_kv_heads; ++h) {
    const auto tokens = within_prompt(*given(layer.layer, h), layer.prompt_tokens);
    KeptHead& head = all.emplace_back();
    head.nan_scores = own[h].nan_scores;
    head.budget_tokens = own[h].budget_tokens;
    head.error = own[h].error;
    std::set_union(own[h].positions.begin(), own[h].positions.end(), tokens.begin(), tokens.end(),
                   std::back_inserter(head.positions));
    if (!rule_ || !rule_->evicts() || (by_layer && h > 0)) continue;
    const UnitPlace place{layer.layer,
                          h,
                          layer.n_layers,
                          heads_per_unit,
                          heads_per_unit * layer.n_heads / layer.n_kv_heads,
                          layer.head_dim};
    head.state = state_beside(place, own[h], head);
  }
  return all;
}

class RestoringCascade final : public PromptCascade {
 public:
  RestoringCascade(const RestoringPolicy& policy, std::unique_ptr<PromptCascade> inner)
      : policy_(policy), inner_(std::move(inner)) {}

  std::vector<KeptHead> cut(const PromptLayer& layer) override {
    shape_.n_layers = layer.n_layers;
    shape_.n_heads = layer.n_heads;
    shape_.n_kv_heads = layer.n_kv_heads;
    shape_.prompt_tokens = layer.prompt_tokens;
    shape_.head_dim = layer.head_dim;
    return policy_.restored(inner_->cut(layer), layer);
  }
  std::vector<Recut> take_recuts() override {
    std::vector<Recut> recuts = inner_->take_recuts();
    for (Recut& recut : recuts) {
      shape_.layer = recut.layer;
      recut.heads = policy_.restored(recut.heads, shape_);
    }
    return recuts;
  }

 private:
  const RestoringPolicy& policy_;
  std::unique_ptr<PromptCascade> inner_;
  PromptLayer shape_;  // of the prompt
};

std::unique_ptr<PromptCascade> RestoringPolicy::make_cascade() const {
  auto cascade = inner_->make_cascade();
  if (cascade == nullptr) return nullptr;
  return std::make_unique<RestoringCascade>(*this, std::move(cascade));
}

}  // namespace

bool Restoration::empty() const {
  return std::all_of(positions.begin(), positions.end(),
                     [](const Positions& some) { return some.empty(); });
}

Restoration restore_everywhere(std::span<const std::int32_t> positions, int n_layers,
                               int n_kv_heads, const std::function<bool(int, int)>& where) {
  Positions sorted(positions.begin(), positions.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  Restoration restoration;
  restoration.n_kv_heads = n_kv_heads;
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int h = 0; h < n_kv_heads; ++h)
      restoration.positions.push_back(!where || where(layer, h) ? sorted : Positions{});
  }
  return restoration;
}

std::shared_ptr<const Policy> restore_tokens(std::shared_ptr<const Policy> policy,
                                             Restoration restoration) {
  if (restoration.empty() || policy->never_evicts() || policy->read_rule()) return policy;
  return std::make_shared<const RestoringPolicy>(std::move(policy), std::move(restoration));
}

}  // namespace kvscope
