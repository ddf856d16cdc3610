// Plug-ins: the rule is a user's, in a shared object.
//
// Needs     : what the plug-in declares. Of a prompt every row is shown; probabilities only where
//             they are asked for.
// State     : the plug-in's own, slot_state_bytes a cached token and unit by its own word.
// Deviations: a plug-in says who stays, not what each token is worth: parts that share budgets out
//             by score, and whole pages, are refused.
#include "runner/policies/plugin.h"

#include "runner/policies/host_policy.h"
#include "runner/policies/plugin_state.h"

namespace kvscope {
namespace {

using Library = std::shared_ptr<const PluginLibrary>;

class PluginPolicy final : public FittedPolicy {
 public:
  PluginPolicy(Library library, const PolicySpec& spec, const Fitting& fitting)
      : FittedPolicy(spec, fitting), library_(std::move(library)) {
    for (const ParamInfo& param : library_->params()) {
      const std::string name(param.name);
      arguments_.push_back(
          {library_->policy().params[arguments_.size()].name, fitted_params().at(name).c_str()});
    }
  }

 protected:
  PromptNeed cut_need() const override {
    return {.replay_rows = library_->needs(KVSCOPE_NEEDS_PROBABILITIES) ? PromptNeed::kAllRows : 0,
            .keys = library_->needs(KVSCOPE_NEEDS_KEYS),
            .values = library_->needs(KVSCOPE_NEEDS_VALUES),
            .queries = library_->needs(KVSCOPE_NEEDS_QUERIES)};
  }
  std::vector<KeptHead> cut(const PromptLayer& layer, int layer_budget) const override;
  std::vector<PromptScores> prompt_scores(const PromptLayer&) const override { return {}; }
  std::unique_ptr<PolicyState> make_host_state(UnitPlace place, int budget) const override {
    return make_unit(place, budget);
  }

 private:
  std::unique_ptr<PluginState> make_unit(UnitPlace place, int budget) const {
    kvscope_unit unit{};
    unit.layer = place.layer;
    unit.n_layers = place.n_layers;
    unit.kv_head = place.kv_head;
    unit.n_kv_heads = place.n_kv_heads;
    unit.n_query_heads = place.n_query_heads;
    unit.head_dim = place.head_dim;
    unit.budget_tokens = budget;
    unit.protect_last = fitting().protection.last ? 1 : 0;
    unit.arguments = arguments_.data();
    unit.n_arguments = static_cast<std::int32_t>(arguments_.size());
    return std::make_unique<PluginState>(library_, unit);
  }
  bool by_layer() const { return library_->policy().scope == KVSCOPE_SCOPE_LAYER; }

  Library library_;
  std::vector<kvscope_argument> arguments_;  // values live in fitted_params()
};

// Heads first … first + n - 1 of row u. all: [heads][P][head_dim] → [n][head_dim]
std::vector<float> row_of(std::span<const float> all, const PromptLayer& layer, int first, int n,
                          int u) {
  std::vector<float> row;
  if (all.empty()) return row;
  const auto d = static_cast<std::size_t>(layer.head_dim);
  for (int h = first; h < first + n; ++h) {
    const auto at = all.subspan((static_cast<std::size_t>(h) * layer.prompt_tokens + u) * d, d);
    row.insert(row.end(), at.begin(), at.end());
  }
  return row;
}

// Shows all rows of the prompt to one unit a KV head, or to one for all of them.
void show_rows(const PromptLayer& layer, const std::vector<std::int32_t>& positions,
               const std::vector<std::unique_ptr<PluginState>>& units,
               const std::vector<PromptReader>& readers) {
  const int n_units = static_cast<int>(units.size());
  const int heads = layer.n_heads / n_units;
  const auto show = [&](int u, std::span<const float> all, int stride) {
    const auto n = static_cast<std::size_t>(u) + 1;
    for (int unit = 0; unit < n_units; ++unit) {
      std::vector<float> probabilities;  // [heads][n]
      for (int h = unit * heads; h < (unit + 1) * heads && !all.empty(); ++h) {
        const auto row = all.subspan(static_cast<std::size_t>(h) * stride, n);
        probabilities.insert(probabilities.end(), row.begin(), row.end());
      }
      const std::vector<float> queries = row_of(layer.queries, layer, unit * heads, heads, u);
      VisibleRow row{std::span(positions).first(n), probabilities, heads, &readers[unit]};
      row.queries = queries;
      row.inverse_frequency = layer.inverse_frequency;
      units[unit]->observe(row);
    }
  };
  if (layer.rows != nullptr) {
    layer.rows->for_each(0, show);
  } else {
    for (int u = 0; u < layer.prompt_tokens; ++u) show(u, {}, 0);
  }
}

std::vector<KeptHead> PluginPolicy::cut(const PromptLayer& layer, int layer_budget) const {
  const int n_units = by_layer() ? 1 : layer.n_kv_heads;
  const int kv_heads = layer.n_kv_heads / n_units;
  const std::vector<std::int32_t> positions = positions_up_to(layer.prompt_tokens);
  std::vector<std::unique_ptr<PluginState>> units;
  std::vector<PromptReader> readers;
  for (int u = 0; u < n_units; ++u) {
    units.push_back(make_unit(
        {layer.layer, u, layer.n_layers, kv_heads, layer.n_heads / n_units, layer.head_dim},
        layer_budget));
    readers.emplace_back(layer, u * kv_heads, kv_heads);
  }
  show_rows(layer, positions, units, readers);
  std::vector<KeptHead> heads;
  for (int u = 0; u < n_units; ++u) {
    KeptHead head;
    head.positions = units[u]->select({positions, &readers[u]});  // slot = position in a prompt
    head.budget_tokens = layer_budget;
    const bool goes_on = keeps_its_rule() && scan_rule().has_value();
    if (goes_on && head.positions.size() < positions.size()) units[u]->compact(head.positions);
    head.error = units[u]->error();
    if (goes_on) head.state = std::move(units[u]);
    heads.push_back(std::move(head));
  }
  if (n_units == 1) heads.resize(layer.n_kv_heads, heads.front());
  return heads;
}

std::unique_ptr<Policy> make_plugin(const Library& library, const PolicySpec& spec,
                                    const FitRequest& request, int budget_tokens) {
  const kvscope_policy& policy = library->policy();
  const bool by_layer = policy.scope == KVSCOPE_SCOPE_LAYER;
  Fitting fitting{.budget_tokens = budget_tokens,
                  .prompt_tokens = request.length,
                  .rule = std::nullopt,
                  .one_set = by_layer,
                  .protection = {.last = spec.protect_last}};
  if (policy.acts_in_stream != 0) {
    fitting.rule =
        host_rule(budget_tokens, by_layer ? ScanRule::Scope::kLayer : ScanRule::Scope::kHead,
                  policy.slot_state_bytes);
  }
  return std::make_unique<PluginPolicy>(library, spec, fitting);
}

struct PluginEntry {
  Library library;  // outlives info, which points into it
  PolicyInfo info;
};

}  // namespace

std::shared_ptr<const PolicyInfo> load_policy_plugin(const std::filesystem::path& file) {
  auto entry = std::make_shared<PluginEntry>();
  entry->library = std::make_shared<const PluginLibrary>(file);
  const PluginLibrary& library = *entry->library;
  const bool in_stream = library.policy().acts_in_stream != 0;
  entry->info = {.name = library.policy().name,
                 .summary = library.policy().summary,
                 .paper = "plug-in",
                 .source = library.file(),
                 .params = library.params(),
                 .has_in_stream_rule = in_stream,
                 .default_decode = in_stream ? DecodeMode::kSelf : DecodeMode::kGrow,
                 .default_positions = PositionMode::kAbsolute,
                 .streams_prompt = in_stream,
                 .selects_itself = true,
                 .plugin_sha256 = library.sha256(),
                 .make = [held = entry->library](const PolicySpec& spec, const FitRequest& request,
                                                 int budget_tokens) {
                   return make_plugin(held, spec, request, budget_tokens);
                 }};
  return {entry, &entry->info};
}

}  // namespace kvscope
