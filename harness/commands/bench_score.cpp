// kvscope bench score: what it costs to score a text under a policy that acts in stream, against
// the full cache, against the same policy token by token, and as the text gets longer.
#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/commands/bench.h"
#include "harness/commands/bench_common.h"
#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

struct ScoreBenchOptions : BenchOptions {
  std::string policy = "h2o";
  std::vector<std::string> plugins;
  int budget_tokens = 256;
  int tokens = 8192;
  int first_scored = 1;
  int token_major_tokens = 512;
  std::vector<int> lengths;
  std::string text_file;
};

ScoreArm in_stream_arm(const ScoreBenchOptions& options, int length) {
  const PolicySpec spec = parse_policy(options.policy, catalog_with_plugins(options.plugins));
  if (!spec.is_full() && !spec.acts_in_stream()) {
    throw UsageError("bench score: " + spec.canonical +
                     " acts at the end of a prompt only: name a policy that acts in stream");
  }
  FitRequest fit;
  fit.in_stream = true;
  fit.length = length;
  if (spec.is_full()) {
    fit.budget.permille = 1000;
  } else {
    fit.budget.tokens = options.budget_tokens;
  }
  return {fit_policy(spec, fit), nullptr, true};
}

// Seconds of one call that scores a text layer by layer: caches, all layers, and logits with NLL of
// every token from first_scored on.
double score_seconds(Engine& engine, std::span<const std::int32_t> ids, const ScoreArm& arm,
                     int first_scored, std::int64_t* kv_peak_bytes = nullptr) {
  ScoreRequest request;
  request.tokens = ids;
  request.first_scored = first_scored;
  return seconds_of([&] {
    const auto results = engine.score(request, std::span(&arm, 1));
    const ScoreArmResult& result = results.value().front();
    if (!result.error.empty()) throw DataError("bench score: " + result.error);
    if (kv_peak_bytes != nullptr) *kv_peak_bytes = result.ledger.peak().total_bytes();
  });
}

// Seconds that the loop over tokens takes for `timed` tokens once `warm_up` tokens have filled the
// cache to its budget. The engine asks before every token whether to stop; the clock is read there,
// and the loop is left before logits are computed: they are in the time of the layer-major pass and
// not in this one, which favours the loop.
double loop_seconds(Engine& engine, std::span<const std::int32_t> ids, const ScoreArm& arm,
                    int warm_up, int timed) {
  using Clock = std::chrono::steady_clock;
  ScoreRequest request;
  request.tokens = ids.first(std::size_t(warm_up) + timed + 1);
  request.token_major = true;
  Clock::time_point start;
  Clock::time_point end;
  int fed = 0;
  const auto results = engine.score(request, std::span(&arm, 1), [&] {
    if (fed == warm_up) start = Clock::now();
    if (fed == warm_up + timed) end = Clock::now();
    return fed++ == warm_up + timed;
  });
  if (results) throw std::logic_error("the loop over tokens did not ask before every token");
  return std::chrono::duration<double>(end - start).count();
}

// ---- layer-major against the full cache and against the loop ----

ExitCode compare(const ScoreBenchOptions& options, const CudaSupport& cuda) {
  const int warm_up = options.budget_tokens + 1;  // then every token evicts one
  const int loop_tokens = options.token_major_tokens;
  const OpenedModel opened = open_model(options.model, cuda);
  Engine& engine = *opened.engine;
  engine.allow_beyond_context(true);
  const auto ids = bench_tokens(*opened.tokenizer, options.text_file,
                                std::max(options.tokens, warm_up + loop_tokens + 1));
  const auto text = std::span(ids).first(options.tokens);
  const ScoreArm arm = in_stream_arm(options, options.tokens);
  ScoreBenchOptions full_options = options;
  full_options.policy = "full";
  const ScoreArm full = in_stream_arm(full_options, options.tokens);

  const bool has_policy = !arm.policy->is_dense();
  std::vector<std::function<double()>> measurements = {
      [&] { return score_seconds(engine, text, full, options.first_scored); }};
  if (has_policy) {
    measurements.emplace_back(
        [&] { return score_seconds(engine, text, arm, options.first_scored); });
    if (loop_tokens > 0) {
      measurements.emplace_back(
          [&] { return loop_seconds(engine, ids, arm, warm_up, loop_tokens); });
    }
  }
  const auto seconds = measure_in_turn(options.repetitions, measurements);
  const Samples full_rates = seconds[0].rates(options.tokens);

  Json out = bench_json("score", opened, options);
  out["tokens"] = options.tokens;
  out["first_scored"] = options.first_scored;
  out["full_tokens_per_second"] = samples_json(full_rates);
  Table table({"work", "tokens/s", "speed of full"});
  table.add_row({"full", samples_text(full_rates, 1), "1.00"});
  if (has_policy) {
    const Samples rates = seconds[1].rates(options.tokens);
    const double to_full = rates.median() / full_rates.median();
    out["policy"] = options.policy;
    out["budget_tokens"] = options.budget_tokens;
    out["policy_tokens_per_second"] = samples_json(rates);
    out["policy_to_full"] = json_number(to_full);
    table.add_row({options.policy + "@" + std::to_string(options.budget_tokens) + ", layer-major",
                   samples_text(rates, 1), format_fixed(to_full, 2)});
    if (loop_tokens > 0) {
      const Samples loop_rates = seconds[2].rates(loop_tokens);
      out["loop_tokens"] = loop_tokens;
      out["loop_tokens_per_second"] = samples_json(loop_rates);
      out["policy_to_loop"] = json_number(rates.median() / loop_rates.median());
      table.add_row({"the same, token by token", samples_text(loop_rates, 1),
                     format_fixed(loop_rates.median() / full_rates.median(), 2)});
    }
  }
  if (options.json) {
    print_json_line(std::cout, out);
  } else {
    std::cout << bench_line(opened, options) << options.tokens << " tokens\n" << table.text();
  }
  return ExitCode::kOk;
}

// ---- as the text gets longer ----

ExitCode lengthen(const ScoreBenchOptions& options, const CudaSupport& cuda) {
  const OpenedModel opened = open_model(options.model, cuda);
  Engine& engine = *opened.engine;
  engine.allow_beyond_context(true);
  const auto ids =
      bench_tokens(*opened.tokenizer, options.text_file, std::ranges::max(options.lengths));

  Json rows = Json::array();
  Table table({"tokens", "tokens/s", "peak KV", "peak of the process"});
  for (const int length : options.lengths) {
    const ScoreArm arm = in_stream_arm(options, length);
    const auto text = std::span(ids).first(length);
    // No warm-up at each length: a long text is its own, and the first length warms the rest.
    if (rows.empty()) score_seconds(engine, text, arm, options.first_scored);
    Samples seconds;
    std::int64_t kv_peak_bytes = 0;
    reset_peak_process_bytes();
    for (int i = 0; i < options.repetitions; ++i) {
      seconds.values.push_back(
          score_seconds(engine, text, arm, options.first_scored, &kv_peak_bytes));
    }
    const std::int64_t process_bytes = peak_process_bytes();
    const Samples rates = seconds.rates(length);
    rows.push_back({{"tokens", length},
                    {"tokens_per_second", samples_json(rates)},
                    {"kv_peak_bytes", kv_peak_bytes},
                    {"process_peak_bytes", process_bytes}});
    table.add_row({std::to_string(length), samples_text(rates, 1), format_bytes(kv_peak_bytes),
                   format_bytes(process_bytes)});
  }
  if (options.json) {
    Json out = bench_json("score_lengths", opened, options);
    out["policy"] = options.policy;
    out["budget_tokens"] = options.budget_tokens;
    out["lengths"] = std::move(rows);
    print_json_line(std::cout, out);
  } else {
    std::cout << bench_line(opened, options) << options.policy << ", budget "
              << options.budget_tokens << " tokens\n"
              << table.text();
  }
  return ExitCode::kOk;
}

}  // namespace

void add_bench_score(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<ScoreBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("score", "Scoring a text in stream, against the full cache");
  add_bench_options(*command, *options);
  command
      ->add_option("--policy", options->policy, "A policy that acts in stream; full: that one only")
      ->capture_default_str();
  add_plugin_option(*command, options->plugins);
  command->add_option("--budget-tokens", options->budget_tokens, "Its budget")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--tokens", options->tokens, "Tokens of the text")
      ->capture_default_str()
      ->check(CLI::Range(2, 10'000'000));
  command
      ->add_option("--first-scored", options->first_scored,
                   "Logits only for predictions of tokens from this index on")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  command
      ->add_option("--token-major-tokens", options->token_major_tokens,
                   "Tokens to time the loop over tokens with; 0: leave it out")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  command
      ->add_option("--lengths", options->lengths,
                   "Instead of the comparison: speed and memory at these lengths")
      ->delimiter(',')
      ->check(CLI::Range(2, 10'000'000));
  command->add_option("--text", options->text_file, "Text to score (default: made-up ids)");
  command->footer(
      "Examples:\n"
      "  kvscope bench score --policy h2o --budget-tokens 256 --tokens 8192 --json\n"
      "  kvscope bench score --policy h2o --budget-tokens 256 --repetitions 1 "
      "--lengths 4096,8192,16384,32768,65536");
  set_action(*command, context, [options, &context] {
    // Before the model is loaded: what is wrong with a policy shows at once.
    parse_policy(options->policy, catalog_with_plugins(options->plugins));
    return options->lengths.empty() ? compare(*options, context.cuda)
                                    : lengthen(*options, context.cuda);
  });
}

}  // namespace kvscope
