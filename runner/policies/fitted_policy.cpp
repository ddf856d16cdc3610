#include "runner/policies/fitted_policy.h"

#include <cassert>
#include <numeric>

#include "runner/policies/cake_cascade.h"
#include "runner/policies/head_budgets.h"
#include "runner/policies/pyramid_budgets.h"
#include "runner/policies/rule_state.h"

namespace kvscope {
namespace {

std::vector<KeptHead> keep_all(const PromptLayer& layer) {
  KeptHead head;
  head.positions.resize(layer.prompt_tokens);
  std::iota(head.positions.begin(), head.positions.end(), 0);
  return std::vector<KeptHead>(layer.n_kv_heads, head);
}

std::optional<ScanRule> rule_after_prompt(const PolicySpec& spec, const Fitting& fitting) {
  if (spec.decode == DecodeMode::kSelf) return fitting.rule;
  if (spec.decode == DecodeMode::kGrow) return std::nullopt;
  return second_rule(spec.decode, fitting.budget_tokens, spec.protect_last, fitting.one_set);
}

template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<std::int32_t>& at) {
  std::vector<T> some;
  if (all.empty()) return some;
  some.reserve(at.size());
  for (const std::int32_t i : at) some.push_back(all[i]);
  return some;
}

// Budgets of the units of a layer by Ada-KV: each keeps what it wins among the tokens that are not
// protected, and those that are.
std::vector<int> split_by_heads(const HeadBudgets& how, const Protection& protection,
                                const std::vector<PromptScores>& units, int layer_budget,
                                int prompt_tokens) {
  const int n_recent =
      std::min(prompt_tokens, std::max(protection.recent, protection.last ? 1 : 0));
  const int n_sinks = std::min(protection.sinks, prompt_tokens - n_recent);
  const int n_prefix = prompt_tokens - n_recent - n_sinks;
  const int base = std::max(0, layer_budget - n_recent - n_sinks);
  std::vector<float> prefix;
  for (const PromptScores& unit : units) {
    const auto first = unit.scores.begin() + n_sinks;
    prefix.insert(prefix.end(), first, first + n_prefix);
  }
  const HeadSelection won = adakv_selection({how.floor_share, how.normalize}, prefix,
                                            static_cast<int>(units.size()), base);
  std::vector<int> budgets;
  for (const auto& kept : won.kept)
    budgets.push_back(static_cast<int>(kept.size()) + n_recent + n_sinks);
  return budgets;
}

}  // namespace

FittedPolicy::FittedPolicy(const PolicySpec& spec, const Fitting& fitting)
    : decode_(spec.decode),
      composition_(compose(spec)),
      fitting_(fitting),
      own_(fitting.rule),
      rule_(rule_after_prompt(spec, fitting)) {
  if (fitting.page) composition_.page = fitting.page;
  // Whole pages leave through host code alone, under the score's own rule.
  if (composition_.page) {
    for (auto* rule : {&own_, &rule_}) {
      if (!*rule || (rule == &rule_ && decode_ != DecodeMode::kSelf)) continue;
      (*rule)->host_slot_bytes = slot_state_bytes(**rule) + static_cast<int>(sizeof(std::int32_t));
      (*rule)->statistic = ScanRule::Statistic::kHost;
    }
  }
  fitted_params_ = spec.params;
  for (const PartSpec& part : spec.parts) {
    for (const auto& [name, value] : part.params) fitted_params_[part.name + "." + name] = value;
  }
  if (decode_ == DecodeMode::kTova) {
    fitted_params_["decode_scope"] = fitting.one_set ? "layer" : "head";
  }
}

PromptNeed FittedPolicy::prompt_need() const {
  if (never_evicts() || prefill() == PrefillMode::kStreaming) return {};
  PromptNeed need = cut_need();
  if (composition_.cake) need.replay_rows = std::max(need.replay_rows, cake_window());
  return need;
}

int FittedPolicy::cake_window() const {
  const int wished = composition_.cake->window;
  return std::min(wished > 0 ? wished : protected_window(), fitting_.prompt_tokens - 1);
}

int FittedPolicy::most_slots(bool in_stream) const {
  const int budget = fitting_.budget_tokens * (composition_.pyramid ? 2 : 1);  // hi < 2B
  int beyond = std::max(1, every());
  if (!in_stream) beyond = std::max(beyond, chunk());
  if (composition_.page) beyond = std::max(beyond, composition_.page->page_tokens);
  return budget + beyond;
}

int FittedPolicy::drop_tokens(int budget) const {
  return std::min(fitting_.drop_tokens, std::max(1, budget - protected_tokens()));
}

int FittedPolicy::protected_window() const {
  const int window = std::max(fitting_.protection.recent, fitting_.protection.last ? 1 : 0);
  return std::min(window, fitting_.prompt_tokens);  // recent may follow a larger budget
}

std::vector<int> FittedPolicy::layer_budgets(int n_layers) const {
  // A prompt that fits leaves nothing to share out; its layers fill up to the same budget later.
  if (!composition_.pyramid || fitting_.prompt_tokens <= fitting_.budget_tokens) return {};
  const int n_fixed = protected_window() + fitting_.protection.sinks;
  if (composition_.pyramid->as_kvpress) {
    return pyramid_budgets_kvpress(n_layers, fitting_.budget_tokens, n_fixed,
                                   fitting_.prompt_tokens, composition_.pyramid->beta);
  }
  return pyramid_budgets(n_layers, fitting_.budget_tokens, n_fixed, fitting_.prompt_tokens,
                         composition_.pyramid->beta);
}

int FittedPolicy::unit_budget(UnitPlace place) const {
  const std::vector<int> budgets = layer_budgets(place.n_layers);
  return budgets.empty() ? fitting_.budget_tokens : budgets[place.layer];
}

std::vector<KeptHead> FittedPolicy::select_prompt(const PromptLayer& layer) const {
  if (never_evicts() || read_rule()) return keep_all(layer);
  return cut(layer, unit_budget({layer.layer, 0, layer.n_layers}));
}

std::vector<KeptHead> FittedPolicy::cut(const PromptLayer& layer, int layer_budget) const {
  return keep_best(layer_budget, layer, prompt_scores(layer));
}

std::unique_ptr<PromptCascade> FittedPolicy::make_cascade() const {
  if (!composition_.cake || never_evicts()) return nullptr;
  return make_cake_cascade(*this, budget_tokens(), prefill() == PrefillMode::kTwoPass);
}

std::vector<KeptHead> FittedPolicy::keep_best(int layer_budget, const PromptLayer& layer,
                                              const std::vector<PromptScores>& scores) const {
  const int n = layer.prompt_tokens;
  std::vector<int> budgets(scores.size(), layer_budget);
  if (composition_.heads && n > layer_budget)
    budgets = split_by_heads(*composition_.heads, fitting_.protection, scores, layer_budget, n);
  std::vector<KeptHead> heads;
  for (std::size_t u = 0; u < scores.size(); ++u)
    heads.push_back(keep_unit(scores[u], budgets[u], n));
  if (scores.size() == 1) heads.resize(layer.n_kv_heads, heads.front());
  return heads;
}

KeptHead FittedPolicy::keep_unit(const PromptScores& unit, int budget, int prompt_tokens) const {
  std::vector<std::int32_t> positions(prompt_tokens);
  std::iota(positions.begin(), positions.end(), 0);
  int stays = budget;
  // A cascade cuts again at smaller budgets: what each cut drops must not depend on them, so that
  // the kept sets are nested.
  const int drop = composition_.cake ? fitting_.drop_tokens : drop_tokens(budget);
  if (prompt_tokens > budget) stays = std::min(budget, std::max(1, prompt_tokens - drop));
  const TopK kept =
      unit.integer_scores.empty()
          ? keep_protected_and_best<float>(fitting_.protection, positions, unit.scores, stays)
          : keep_protected_and_best<std::uint64_t>(fitting_.protection, positions,
                                                   unit.integer_scores, stays);
  KeptHead head;
  head.positions = kept.slots;  // slot = position in a dense prompt
  head.nan_scores = kept.nan_scores;
  if (composition_.allocates()) head.budget_tokens = budget;
  const auto rule = scan_rule();
  if (!rule) return head;
  const bool own = decode_ == DecodeMode::kSelf;
  if (rule->statistic == ScanRule::Statistic::kHost) {
    if (!own || unit.state == nullptr) return head;
    auto state = std::make_unique<ScoredState>(unit.state->clone(), selection(budget));
    state->starts_from_prompt();
    state->compact(kept.slots);
    head.state = std::move(state);
    return head;
  }
  // Another policy's statistic means nothing to the rule that takes over.
  if (own) head.statistic = chosen(unit.statistic, kept.slots);
  if (own) head.count = chosen(unit.count, kept.slots);
  if (keeps_statistic(rule->statistic)) head.statistic.resize(head.positions.size());
  if (keeps_count(rule->statistic)) head.count.resize(head.positions.size());
  return head;
}

Selection FittedPolicy::selection(int budget) const {
  return {budget, fitting_.protection, composition_.page, drop_tokens(budget)};
}

std::optional<ScanRule> FittedPolicy::scan_rule() const {
  return never_evicts() ? std::nullopt : rule_;
}

std::optional<ScanRule> FittedPolicy::streaming_rule() const {
  return never_evicts() ? std::nullopt : own_;
}

std::unique_ptr<PolicyState> FittedPolicy::make_state(UnitPlace place,
                                                      const KeptHead& start) const {
  const auto rule = scan_rule();
  if (!rule) return nullptr;
  if (start.state != nullptr) return start.state->clone();
  if (rule->statistic != ScanRule::Statistic::kHost)
    return std::make_unique<RuleState>(*rule, place, start);
  return make_host_state(place, start.budget_tokens > 0 ? start.budget_tokens : unit_budget(place));
}

std::unique_ptr<PolicyState> FittedPolicy::make_streaming_state(UnitPlace place) const {
  const auto rule = streaming_rule();
  if (!rule) return nullptr;
  KeptHead start;
  start.budget_tokens = unit_budget(place);
  if (rule->statistic != ScanRule::Statistic::kHost)
    return std::make_unique<RuleState>(*rule, place, start);
  return make_host_state(place, start.budget_tokens);
}

std::unique_ptr<PolicyState> FittedPolicy::make_host_state(UnitPlace place, int budget) const {
  return std::make_unique<ScoredState>(make_score(place), selection(budget));
}

void replay_rows(const PromptLayer& layer, int first_row, int heads_per_unit,
                 const std::vector<ScoreState*>& units) {
  std::vector<std::int32_t> positions(layer.prompt_tokens);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<float> rows;  // [heads_per_unit][u + 1]
  layer.rows->for_each(first_row, [&](int u, std::span<const float> all, int stride) {
    const auto n = static_cast<std::size_t>(u) + 1;
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      rows.clear();
      for (int h = 0; h < heads_per_unit; ++h) {
        const std::size_t head = unit * heads_per_unit + h;
        const auto row = all.subspan(head * stride, n);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      units[unit]->observe({std::span(positions).first(n), rows, heads_per_unit});
    }
  });
}

ScanRule second_rule(DecodeMode decode, int budget_tokens, bool protect_last, bool one_set) {
  ScanRule rule;
  rule.budget_tokens = budget_tokens;
  rule.protect_last = protect_last;
  if (decode == DecodeMode::kTova) {
    rule.statistic = ScanRule::Statistic::kLast;
    rule.victim = ScanRule::Victim::kLowest;
    rule.scope = one_set ? ScanRule::Scope::kLayer : ScanRule::Scope::kHead;
  } else if (decode == DecodeMode::kH2o) {
    rule.statistic = ScanRule::Statistic::kSum;
    rule.victim = ScanRule::Victim::kLowest;
    rule.recent = budget_tokens / 2;
    rule.half_is_recent = true;
  } else {
    assert(decode == DecodeMode::kWindow);
  }
  return rule;
}

}  // namespace kvscope
