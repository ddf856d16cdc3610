#include "harness/commands/score.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

#include "datasets/text/text_windows.h"
#include "harness/commands/input.h"
#include "harness/commands/ledger_report.h"
#include "harness/commands/score_run.h"
#include "harness/plan/stop_signals.h"
#include "harness/report/json.h"
#include "harness/report/probe_plan.h"
#include "harness/report/progress.h"
#include "harness/report/table.h"
#include "harness/store/metric_info.h"
#include "metrics/stats/paired.h"
#include "runner/base/error.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

constexpr const char* kLlamaCpp = "llama.cpp";
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

struct ScoreOptions {
  ModelOptions model;
  ArmOptions arm;
  std::string ids_file;
  std::string text_file;
  std::optional<int> prompt_tokens;
  std::string prefill;
  std::optional<int> context;
  std::optional<int> limit;
  std::string convention = "all";
  int top = 0;
  bool residents = false;
  std::string probe = "off";
  std::string ghosts = "f32";
  int ghost_cap = 0;
  bool token_major = false;
  bool json = false;
};

ScoreRun run_of(const ScoreOptions& options) {
  if (options.ids_file.empty() == options.text_file.empty()) {
    throw UsageError("score: give one of --ids FILE.json or --text FILE");
  }
  if (options.limit && !options.context)
    throw UsageError("--limit counts windows: add --context N");
  const bool llama_cpp = options.convention == kLlamaCpp;
  if (llama_cpp && (options.text_file.empty() || !options.context || *options.context < 4)) {
    throw UsageError(
        "--convention llama.cpp cuts a text itself: add --text FILE and --context N, "
        "at least 4");
  }
  ScoreRun run;
  const PolicyCatalog catalog = catalog_with_plugins(options.arm.plugins);
  run.spec = parse_policy(options.arm.policy, catalog);
  if (!options.prefill.empty()) {
    if (!options.prompt_tokens)
      throw UsageError("--prefill says how a prompt is read: add --prompt-tokens N");
    // One grammar decides what goes together, however it was written; `full` has one way.
    std::string text = options.arm.policy;
    text.insert(std::min(text.find('+'), text.size()), ":prefill=" + options.prefill);
    if (!run.spec.is_full()) run.spec = parse_policy(text, catalog);
  }
  const auto budget = budget_of(options.arm, run.spec);
  if (!budget)
    throw UsageError("score: " + run.spec.canonical + " needs --budget R or --budget-tokens N");
  run.budget = *budget;
  run.prompt_tokens = options.prompt_tokens;
  run.top = options.top;
  run.want_residents = options.residents;
  run.probes = parse_probes(options.probe, options.ghosts, options.ghost_cap);
  run.token_major = options.token_major;
  if (llama_cpp) run.first_scored = llama_cpp_first_scored(*options.context);
  return run;
}

std::vector<std::int32_t> read_ids(const ScoreOptions& options, const Tokenizer& tokenizer) {
  if (!options.ids_file.empty()) {
    auto ids = parse_ids(read_exact_text(options.ids_file), options.ids_file);
    check_ids(ids, tokenizer.n_vocab(), options.ids_file);
    return ids;
  }
  const std::string text = read_exact_text(options.text_file);
  if (options.convention == kLlamaCpp) return llama_cpp_tokens(text, *options.context, tokenizer);
  return tokenizer.encode(text, SpecialTokens::kParse);
}

// Consecutive, not overlapping; an incomplete last one is dropped. Without --context everything is
// one.
std::vector<std::span<const std::int32_t>> cut_windows(const ScoreOptions& options,
                                                       std::span<const std::int32_t> ids) {
  if (!options.context) return {ids};
  const auto context = static_cast<std::size_t>(*options.context);
  std::size_t n = ids.size() / context;
  if (n == 0) {
    throw DataError("score: the text has " + std::to_string(ids.size()) +
                    " tokens, fewer than one window of " + std::to_string(context));
  }
  if (options.limit) n = std::min(n, static_cast<std::size_t>(*options.limit));
  std::vector<std::span<const std::int32_t>> windows;
  for (std::size_t w = 0; w < n; ++w) windows.push_back(ids.subspan(w * context, context));
  return windows;
}

Json top_json(const std::vector<std::pair<std::int32_t, float>>& best) {
  Json row = Json::array();
  for (const auto& [id, log_probability] : best) {
    row.push_back(Json::array({id, json_number(double(log_probability))}));
  }
  return row;
}

Json residents_json(const ScoreArmResult& arm, int n_kv_heads) {
  Json out = Json::object();
  for (std::size_t unit = 0; unit < arm.resident_positions.size(); ++unit) {
    const std::size_t heads = static_cast<std::size_t>(n_kv_heads);
    out[std::to_string(unit / heads) + "." + std::to_string(unit % heads)] =
        arm.resident_positions[unit];
  }
  return out;
}

// Sums over all windows.
struct Totals {
  double sum_nll_nats = 0.0;
  std::int64_t n_scored = 0;
  std::optional<ProbeSummary> probes;
  double sum_kl_full_nats = 0.0;
  std::int64_t n_top1_agrees = 0;
  std::int64_t n_compared = 0;

  void add(const ScoredIds& window) {
    sum_nll_nats += window.sum_nll_nats;
    n_scored += window.n_scored;
    sum_kl_full_nats += window.sum_kl_full_nats;
    n_top1_agrees += window.n_top1_agrees;
    n_compared += window.n_compared;
    if (!window.probes) return;
    if (probes) {
      probes->merge(*window.probes);
    } else {
      probes = window.probes;
    }
  }
  double mean_nll_nats() const {
    return n_scored > 0 ? sum_nll_nats / double(n_scored) : kUndefined;
  }
  double mean_kl() const {
    return n_compared > 0 ? sum_kl_full_nats / double(n_compared) : kUndefined;
  }
  double agreement() const {
    return n_compared > 0 ? double(n_top1_agrees) / double(n_compared) : kUndefined;
  }
  double probe(ProbeMetric ProbeSummary::*metric) const {
    if (!probes || ((*probes).*metric).overall.n == 0) return kUndefined;
    return ((*probes).*metric).overall.mean;
  }
  // Of an estimate; nothing where all rows count.
  std::optional<Interval> interval(ProbeMetric ProbeSummary::*metric, SampledMetric steps) const {
    if (!probes || !probes->sampled) return std::nullopt;
    const std::optional<double> half = probes->sampled->half_interval(steps);
    if (!half) return std::nullopt;
    return Interval{probe(metric) - *half, probe(metric) + *half};
  }
};

// Figures that need the evicted tokens.
struct ProbeFigure {
  const char* key;
  const char* label;
  ProbeMetric ProbeSummary::*metric;
  SampledMetric steps;
};
constexpr ProbeFigure kProbeFigures[] = {
    {"mean_rebound_mass", "rebound mass", &ProbeSummary::rebound_mass, kReboundMassSteps},
    {"mean_hit_at_32", "hit@32", &ProbeSummary::hit_at_32, kHitAt32Steps},
    {"mean_hit_at_90_percent_mass", "hit at 90 % mass", &ProbeSummary::hit_at_p90, kHitAtP90Steps}};

void add_probe_json(Json& out, const ScoreRun& run, const ModelConfig& config,
                    const Totals& totals) {
  const bool is_sampled = run.probes.level == ProbeLevel::kFull;
  for (const ProbeFigure& figure : kProbeFigures) {
    if (run.probes.level == ProbeLevel::kBasic) continue;
    const std::string key = figure.key + std::string(is_sampled ? kSampledSuffix : "");
    out[key] = json_number(totals.probe(figure.metric));
    if (!is_sampled) continue;
    const auto interval = totals.interval(figure.metric, figure.steps);
    out[key + "_ci95"] =
        interval ? Json{json_number(interval->low), json_number(interval->high)} : Json(nullptr);
  }
  if (const auto plan = plan_of(run.probes, config.n_layers, 0))
    out["probe_plan"] = probe_plan_json(*plan);
  if (!totals.probes || run.probes.level == ProbeLevel::kBasic) return;
  const GhostFacts& ghosts = totals.probes->ghosts;
  out["ghost_coverage"] = ghosts.coverage();
  if (run.probes.ghosts.int8) out["ghost_logit_bound"] = ghosts.logit_bound;
}

void print_json(const ScoreOptions& options, const ScoreRun& run, const ModelConfig& config,
                std::span<const std::span<const std::int32_t>> windows,
                std::span<const ScoredIds> scored, const Totals& totals) {
  Json out;
  out["policy"] = run.spec.canonical;
  out["budget"] = run.budget.label();
  out["mode"] = name_of(scored.back().arm.mode);
  Json ids = Json::array();
  Json nll = Json::array();
  Json top = Json::array();
  Json window_rows = Json::array();
  for (std::size_t w = 0; w < windows.size(); ++w) {
    for (const std::int32_t id : windows[w]) ids.push_back(id);
    for (const double value : scored[w].arm.nll_nats) nll.push_back(json_number(value));
    for (const auto& best : scored[w].arm.top) top.push_back(top_json(best));
    window_rows.push_back({{"window", w},
                           {"sum_nll_nats", json_number(scored[w].sum_nll_nats)},
                           {"tokens", scored[w].n_scored}});
  }
  out["token_ids"] = std::move(ids);
  out["nll_nats"] = std::move(nll);
  out["mean_nll_nats"] = json_number(totals.mean_nll_nats());
  if (options.top > 0) out["top"] = std::move(top);
  if (options.residents)
    out["resident_positions"] = residents_json(scored.back().arm, config.n_kv_heads);
  if (options.context) {
    out["convention"] = options.convention;
    out["windows"] = std::move(window_rows);
    out["perplexity"] = json_number(std::exp(totals.mean_nll_nats()));
  }
  if (run.probes.level != ProbeLevel::kOff) {
    add_probe_json(out, run, config, totals);
    out["mean_kl_full_nats"] = json_number(totals.mean_kl());
    out["top1_agreement"] = json_number(totals.agreement());
  }
  out["kv"] = ledger_json(scored.back().arm.ledger);
  print_json_line(std::cout, out);
}

std::string figure_text(const Totals& totals, const ProbeFigure& figure) {
  std::string text = format_fixed(totals.probe(figure.metric), 4);
  if (const auto interval = totals.interval(figure.metric, figure.steps))
    text += " [" + format_fixed(interval->low, 4) + ", " + format_fixed(interval->high, 4) + "]";
  return text;
}

void print_table(const ScoreRun& run, const ModelConfig& config, std::span<const ScoredIds> scored,
                 const Totals& totals) {
  Table table({"figure", "value"});
  table.add_row({"policy", run.spec.canonical + " @ " + run.budget.label()});
  table.add_row({"mode", std::string(name_of(scored.back().arm.mode))});
  table.add_row({"windows", std::to_string(scored.size())});
  table.add_row({"scored tokens", std::to_string(totals.n_scored)});
  table.add_row({"mean NLL (nats)", format_fixed(totals.mean_nll_nats(), 4)});
  table.add_row({"perplexity", format_fixed(std::exp(totals.mean_nll_nats()), 3)});
  if (run.probes.level != ProbeLevel::kOff) {
    for (const ProbeFigure& figure : kProbeFigures) {
      if (run.probes.level == ProbeLevel::kBasic) continue;
      table.add_row({figure.label, figure_text(totals, figure)});
    }
    table.add_row({"KL from full (nats)", format_fixed(totals.mean_kl(), 5)});
    table.add_row({"top-1 agreement", format_percent(totals.agreement(), 2)});
  }
  add_ledger_rows(table, scored.back().arm.ledger);
  std::cout << table.text();
  if (const auto plan = plan_of(run.probes, config.n_layers, 0);
      plan && run.probes.level == ProbeLevel::kFull)
    std::cout << sampled_note(probe_plan_json(*plan), "rebound mass, hits");
}

ExitCode stopped(const StopSignals& signals, std::size_t done, std::size_t windows) {
  std::fprintf(stderr, "Stopped with %zu of %zu windows scored; nothing is kept.\n", done, windows);
  return signals.exit_code().value_or(ExitCode::kTryAgain);
}

ExitCode run_score(const ScoreOptions& options, const CudaSupport& cuda) {
  const StopSignals signals;  // first: loading takes long enough to be interrupted
  const ScoreRun run = run_of(options);
  const OpenedModel opened = open_model(options.model, cuda);
  const std::vector<std::int32_t> ids = read_ids(options, *opened.tokenizer);
  const auto windows = cut_windows(options, ids);
  if (options.residents && windows.size() > 1) {
    throw UsageError("--residents shows one window: add --limit 1");
  }
  std::vector<ScoredIds> scored;
  Totals totals;
  std::optional<Progress> progress;
  const auto advanced = [&](int n_tokens) {
    // Not before the engine accepted the request: a refusal is one line.
    if (!progress) {
      const auto total = std::int64_t(windows.size() * windows.front().size());
      progress.emplace("score", total, "tokens");
    }
    progress->advance(n_tokens);
  };
  for (const auto window : windows) {
    auto one = score_ids(
        *opened.engine, run, window, [&] { return signals.requested(); }, advanced);
    if (!one) {
      progress.reset();
      return stopped(signals, scored.size(), windows.size());
    }
    scored.push_back(std::move(*one));
    totals.add(scored.back());
  }
  progress.reset();  // its last line comes before the results
  if (options.json) {
    print_json(options, run, opened.model->config, windows, scored, totals);
  } else {
    print_table(run, opened.model->config, scored, totals);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_score_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = app.add_subcommand("score", "One arm over a given text, token by token");
  command->add_option("--ids", options->ids_file, "JSON array of token ids");
  command->add_option("--text", options->text_file,
                      "UTF-8 text; special tokens are recognised, no BOS");
  add_arm_options(*command, options->arm);
  command->add_option(
      "--prompt-tokens", options->prompt_tokens,
      "The first N tokens are a prompt; without it the policy acts from the first token on");
  command
      ->add_option("--prefill", options->prefill,
                   "How the prompt is prefilled (default monolithic)")
      ->check(CLI::IsMember({"monolithic", "streaming", "two_pass"}));
  command->add_option("--context", options->context, "Cut the text into windows of N tokens")
      ->check(CLI::Range(2, std::numeric_limits<int>::max()));
  command->add_option("--limit", options->limit, "Only the first W windows")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command
      ->add_option("--convention", options->convention,
                   "What counts of a window: all tokens but its first, or, as llama-perplexity "
                   "does, those after the first half and one (special tokens as text)")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", kLlamaCpp}));
  command
      ->add_option("--top", options->top, "Print the N most likely next tokens of every position")
      ->check(CLI::Range(0, 1000));
  command->add_flag("--residents", options->residents, "Print the positions that stay");
  command->add_option("--probe", options->probe,
                      "off (default), basic (KL, agreement, what attention gives away), full (and "
                      "evicted tokens in a sample of layers and steps) or all (in every layer and "
                      "step)");
  add_ghost_options(*command, options->ghosts, options->ghost_cap);
  command->add_flag("--token-major", options->token_major,
                    "Token by token through all layers: slower, the same bits");
  add_model_options(*command, options->model);
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  kvscope score --text book.txt --policy streaming_llm:sinks=4 --budget-tokens 256 "
      "--context 1024 --limit 4\n"
      "  kvscope score --text wiki.test.raw --policy full --context 2048 --convention llama.cpp\n"
      "  kvscope score --ids ids.json --policy snapkv --budget 0.2 --prompt-tokens 900 --probe all "
      "--json");
  set_action(*command, context, [options, &context] { return run_score(*options, context.cuda); });
}

}  // namespace kvscope
