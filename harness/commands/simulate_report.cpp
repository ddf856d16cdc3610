#include "harness/commands/simulate_report.h"

#include <algorithm>
#include <limits>

#include "harness/report/table.h"

namespace kvscope {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// One name and one accessor for every figure, in every form.
struct Column {
  const char* key;    // JSON and CSV
  const char* title;  // table; nullptr: not there
  int decimals;
  bool oracle;
  double (*value)(const SimulatedFigures&);
};

constexpr Column kColumns[] = {
    {"mass_hit", "mass hit", 4, false, [](const SimulatedFigures& f) { return f.mass_hit; }},
    {"hit_at_32", "hit@32", 4, false, [](const SimulatedFigures& f) { return f.hit_at_32; }},
    {"hit_at_90_percent_mass", "hit at 90 %", 4, false,
     [](const SimulatedFigures& f) { return f.hit_at_p90; }},
    {"lost_mass", "lost mass", 2, false, [](const SimulatedFigures& f) { return f.lost_mass; }},
    {"o_step_lost_mass", "O-step", 2, true,
     [](const SimulatedFigures& f) { return f.step_loss.value_or(kUndefined); }},
    {"o_opt_lost_mass", "O-opt", 2, true,
     [](const SimulatedFigures& f) { return f.optimal_loss.value_or(kUndefined); }},
    {"o_greedy_lost_mass", "O-greedy", 2, true,
     [](const SimulatedFigures& f) { return f.greedy_loss.value_or(kUndefined); }},
    {"o_prefill_lost_mass", "O-prefill", 2, true,
     [](const SimulatedFigures& f) { return f.prefill_loss.value_or(kUndefined); }},
    {"random_lost_mass", "random", 2, true,
     [](const SimulatedFigures& f) { return f.random_loss.value_or(kUndefined); }},
    {"regret", "regret", 2, true,
     [](const SimulatedFigures& f) { return f.regret.value_or(kUndefined); }},
    {"skill", "skill", 3, true,
     [](const SimulatedFigures& f) { return f.skill.value_or(kUndefined); }},
    {"share", "share", 3, true,
     [](const SimulatedFigures& f) { return f.share.value_or(kUndefined); }},
};

std::span<const SimulatedHead> layer_heads(const SimulatedArm& arm, const TraceFacts& facts,
                                           std::size_t index) {
  const auto n = std::size_t(facts.n_kv_heads);
  return std::span(arm.heads).subspan(index * n, n);
}

template <class Use>
void for_each_column(const SimulateRun& run, const Use& use) {
  for (const Column& column : kColumns) {
    if (run.oracles || !column.oracle) use(column);
  }
}

Json figures_json(const SimulateRun& run, const SimulatedFigures& figures) {
  Json out = Json::object();
  for_each_column(run, [&](const Column& c) { out[c.key] = json_number(c.value(figures)); });
  return out;
}

// The hit-ratio curve: policies down, budgets across.
std::string curve_text(std::span<const SimulatedArm> arms) {
  std::vector<std::string> budgets;
  std::vector<std::string> policies;
  for (const SimulatedArm& arm : arms) {
    const std::string budget = arm.plan.budget.label();
    const std::string& policy = arm.plan.policy.canonical;
    if (std::ranges::find(budgets, budget) == budgets.end()) budgets.push_back(budget);
    if (std::ranges::find(policies, policy) == policies.end()) policies.push_back(policy);
  }
  std::vector<std::string> header = {"mass hit by budget"};
  header.insert(header.end(), budgets.begin(), budgets.end());
  Table table(header);
  for (const std::string& policy : policies) {
    std::vector<std::string> row = {policy};
    for (const std::string& budget : budgets) {
      const auto arm = std::ranges::find_if(arms, [&](const SimulatedArm& a) {
        return a.plan.policy.canonical == policy && a.plan.budget.label() == budget;
      });
      row.push_back(arm == arms.end() ? "-" : format_fixed(figures_of(arm->heads).mass_hit, 4));
    }
    table.add_row(std::move(row));
  }
  return table.text();
}

std::string number_text(double value) { return Json(value).dump(); }

}  // namespace

std::string simulate_text(const SimulateRun& run, const TraceFacts& facts,
                          std::span<const SimulatedArm> arms, bool by_layer) {
  std::vector<std::string> header = {"arm", "B"};
  if (by_layer) header.emplace_back("layer");
  for_each_column(run, [&](const Column& c) { header.emplace_back(c.title); });
  Table table(header);
  const auto add = [&](const SimulatedArm& arm, const std::string& layer,
                       std::span<const SimulatedHead> heads) {
    std::vector<std::string> row = {arm.plan.label(), std::to_string(arm.budget_tokens)};
    if (by_layer) row.push_back(layer);
    const SimulatedFigures figures = figures_of(heads);
    for_each_column(
        run, [&](const Column& c) { row.push_back(format_fixed(c.value(figures), c.decimals)); });
    table.add_row(std::move(row));
  };
  for (const SimulatedArm& arm : arms) {
    for (std::size_t i = 0; by_layer && i < facts.layers.size(); ++i)
      add(arm, std::to_string(facts.layers[i]), layer_heads(arm, facts, i));
    add(arm, "all", arm.heads);
  }
  std::string text = facts.model_name + ": " + std::to_string(facts.n_tokens) + " tokens, " +
                     (run.prompt_tokens > 0 ? "a prompt of " + std::to_string(run.prompt_tokens)
                                            : std::string("in stream")) +
                     "; replay of " + std::to_string(facts.layers.size()) + " of " +
                     std::to_string(facts.n_layers) + " layers\n\n";
  return text + curve_text(arms) + '\n' + table.text();
}

Json simulate_json(const SimulateRun& run, const TraceReader& trace,
                   std::span<const SimulatedArm> arms) {
  const TraceFacts& facts = trace.facts();
  Json out;
  out["frame"] = "replay";
  out["trace"] = {{"sha256", trace.sha256()},     {"model", facts.model_name},
                  {"model_key", facts.model_key}, {"store", name_of(facts.store)},
                  {"layers", facts.layers},       {"tokens", facts.n_tokens}};
  out["prompt_tokens"] = run.prompt_tokens;
  out["rows"] = facts.n_tokens - run.prompt_tokens;
  if (run.oracles) out["random_seeds"] = run.random_seeds;
  Json list = Json::array();
  for (const SimulatedArm& arm : arms) {
    Json entry;
    entry["policy"] = arm.plan.policy.canonical;
    entry["budget"] = arm.plan.budget.label();
    entry["budget_tokens"] = arm.budget_tokens;
    if (run.oracles) entry["bound"] = arm.grows ? "o_prefill" : "o_opt";
    entry.update(figures_json(run, figures_of(arm.heads)));
    Json layers = Json::array();
    for (std::size_t i = 0; i < facts.layers.size(); ++i) {
      const auto heads = layer_heads(arm, facts, i);
      Json layer = {{"layer", facts.layers[i]}};
      layer.update(figures_json(run, figures_of(heads)));
      Json rows = Json::array();
      for (const SimulatedHead& head : heads) {
        Json row = {{"budget_tokens", head.budget_tokens}};
        row.update(figures_json(run, figures_of({&head, 1})));
        rows.push_back(std::move(row));
      }
      layer["kv_heads"] = std::move(rows);
      layers.push_back(std::move(layer));
    }
    entry["layers"] = std::move(layers);
    list.push_back(std::move(entry));
  }
  out["arms"] = std::move(list);
  return out;
}

std::string simulate_csv(const SimulateRun& run, const TraceFacts& facts,
                         std::span<const SimulatedArm> arms) {
  std::string text = "policy,budget,budget_tokens,layer";
  for_each_column(run, [&](const Column& c) { text += std::string(",") + c.key; });
  text += '\n';
  const auto add = [&](const SimulatedArm& arm, const std::string& layer,
                       std::span<const SimulatedHead> heads) {
    text += arm.plan.policy.canonical + ',' + arm.plan.budget.label() + ',' +
            std::to_string(arm.budget_tokens) + ',' + layer;
    const SimulatedFigures figures = figures_of(heads);
    for_each_column(run, [&](const Column& c) {
      const double value = c.value(figures);
      text += ',';
      if (std::isfinite(value)) text += number_text(value);
    });
    text += '\n';
  };
  for (const SimulatedArm& arm : arms) {
    add(arm, "all", arm.heads);
    for (std::size_t i = 0; i < facts.layers.size(); ++i)
      add(arm, std::to_string(facts.layers[i]), layer_heads(arm, facts, i));
  }
  return text;
}

}  // namespace kvscope
