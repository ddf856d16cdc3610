// kvscope bench engine: prefill and decode of the full cache, to be held against other engines.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "harness/commands/bench.h"
#include "harness/commands/bench_common.h"
#include "harness/report/table.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct EngineBenchOptions : BenchOptions {
  std::vector<int> prefill = {512, 4096};
  std::vector<int> rows = {1, 8, 32};
  int prompt = 128;
  int steps = 32;
  std::string text_file;
};

// `rows` full arms of one prompt: the engine runs the prompt once, and the arms decode together as
// rows of one batch that share the prompt's pages. Nothing stops early.
GenerateRequest full_rows(std::span<const std::int32_t> prompt, int rows, int steps) {
  GenerateRequest request;
  request.prompt = prompt;
  request.max_new_tokens = steps;
  FitRequest fit;
  fit.budget.permille = 1000;
  fit.length = int(prompt.size());
  const auto full = fit_policy(parse_policy("full"), fit);
  request.arms.assign(std::size_t(rows), {full, nullptr});
  return request;
}

GenerateArmResult run(Engine& engine, const GenerateRequest& request) {
  const auto results = engine.generate(std::span(&request, 1));
  GenerateArmResult result = results.value().front().front();
  if (!result.error.empty()) throw DataError("bench engine: " + result.error);
  return result;
}

// Seconds until the first new token: the whole call, that is a dense pass over all tokens of the
// prompt but the last, and one decoding step for that one, with its logits. Tables and caches are
// made inside. (A dense pass over all tokens would be some milliseconds shorter: the last token
// costs what a decoding step costs.)
double prefill_seconds(Engine& engine, std::span<const std::int32_t> prompt) {
  return seconds_of([&] { run(engine, full_rows(prompt, 1, 1)); });
}

// Seconds of all decoding steps together: the engine's own count of its batch steps, from the
// embedding to logits and log-sum-exps. The prefill and the choice of the next token (an argmax a
// row, beyond what other engines' benchmarks do with logits) are not in it.
double decode_seconds(Engine& engine, std::span<const std::int32_t> prompt, int rows, int steps) {
  const GenerateArmResult result = run(engine, full_rows(prompt, rows, steps));
  return result.decode_seconds_per_step * result.decode_steps;
}

ExitCode bench_engine(const EngineBenchOptions& options, const CudaSupport& cuda) {
  const OpenedModel opened = open_model(options.model, cuda);
  Engine& engine = *opened.engine;
  engine.allow_beyond_context(true);
  int longest = options.prompt;
  for (const int n : options.prefill) longest = std::max(longest, n);
  const auto ids = bench_tokens(*opened.tokenizer, options.text_file, longest);
  const std::span<const std::int32_t> text(ids);

  std::vector<std::function<double()>> measurements;
  for (const int n : options.prefill) {
    measurements.emplace_back([&, n] { return prefill_seconds(engine, text.first(n)); });
  }
  for (const int rows : options.rows) {
    measurements.emplace_back([&, rows] {
      return decode_seconds(engine, text.first(options.prompt), rows, options.steps);
    });
  }
  const auto seconds = measure_in_turn(options.repetitions, measurements);

  Json prefill = Json::array();
  Json decode = Json::array();
  Table table({"work", "tokens/s"});
  std::size_t i = 0;
  for (const int n : options.prefill) {
    const Samples rates = seconds[i++].rates(n);
    prefill.push_back({{"prompt_tokens", n}, {"tokens_per_second", samples_json(rates)}});
    table.add_row({"prefill " + std::to_string(n), samples_text(rates, 1)});
  }
  for (const int rows : options.rows) {
    const Samples rates = seconds[i++].rates(double(rows) * options.steps);
    decode.push_back({{"rows", rows}, {"tokens_per_second", samples_json(rates)}});
    table.add_row({"decode, rows " + std::to_string(rows), samples_text(rates, 1)});
  }
  if (options.json) {
    Json out = bench_json("engine", opened, options);
    out["decode_prompt_tokens"] = options.prompt;
    out["decode_steps"] = options.steps;
    out["prefill"] = std::move(prefill);
    out["decode"] = std::move(decode);
    print_json_line(std::cout, out);
  } else {
    std::cout << bench_line(opened, options) << table.text();
  }
  return ExitCode::kOk;
}

// "0" stands for none, so that prefill and decode can be measured alone.
void drop_zero(std::vector<int>& numbers) { std::erase(numbers, 0); }

}  // namespace

void add_bench_engine(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<EngineBenchOptions>();
  CLI::App* command = bench.add_subcommand("engine", "Prefill and decode with the full cache");
  add_bench_options(*command, *options);
  command->add_option("--prefill", options->prefill, "Lengths of prompts; 0: none")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--rows", options->rows, "Rows that decode together; 0: none")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(0, 4'096));
  command->add_option("--prompt", options->prompt, "Tokens of the prompt that the rows share")
      ->capture_default_str()
      ->check(CLI::Range(2, 1'000'000));
  command->add_option("--steps", options->steps, "Decoding steps, a token a row")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  command->add_option("--text", options->text_file, "Text of the prompts (default: made-up ids)");
  command->footer("Example:\n  kvscope bench engine --prefill 512,4096 --rows 1,8,32 --json");
  set_action(*command, context, [options, &context] {
    drop_zero(options->prefill);
    drop_zero(options->rows);
    return bench_engine(*options, context.cuda);
  });
}

}  // namespace kvscope
