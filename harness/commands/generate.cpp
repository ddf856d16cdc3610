#include "harness/commands/generate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <limits>
#include <span>

#include "datasets/chat/chat_template.h"
#include "datasets/text/text_file.h"
#include "harness/commands/input.h"
#include "harness/commands/ledger_report.h"
#include "harness/report/json.h"
#include "runner/base/error.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

struct GenerateOptions {
  ModelOptions model;
  ArmOptions arm;
  std::string jsonl;
  std::string prompt;
  bool raw = false;
  int max_new_tokens = 64;
  bool json = false;
};

// One prompt with what is fed after the selection.
struct PromptLine {
  std::vector<std::int32_t> ids;
  std::size_t prompt_tokens = 0;
  std::optional<Budget> budget;  // of this line
  std::optional<std::int32_t> stop_token;
  std::string where;  // for messages
};

PromptLine parse_line(const std::string& file, const NumberedLine& line, std::int32_t n_vocab,
                      const PolicySpec& spec) {
  PromptLine out;
  out.where = file + " line " + std::to_string(line.number);
  const auto row = nlohmann::json::parse(line.text, nullptr, false);
  if (!row.is_object() || !row.contains("ids")) {
    throw DataError(out.where +
                    ": an object like {\"ids\": [1, 2, 3], \"prompt_tokens\": 2} is wanted");
  }
  out.ids = parse_ids(row["ids"].dump(), out.where);
  check_ids(out.ids, n_vocab, out.where);
  const auto integer = [&](const char* key) -> std::optional<std::int64_t> {
    if (!row.contains(key)) return std::nullopt;
    if (!row[key].is_number_integer()) throw DataError(out.where + ": " + key + " is no integer");
    return row[key].get<std::int64_t>();
  };
  const auto length = static_cast<std::int64_t>(out.ids.size());
  const std::int64_t prompt = integer("prompt_tokens").value_or(length);
  if (prompt < 1 || prompt > length) {
    throw DataError(out.where + ": prompt_tokens " + std::to_string(prompt) + " for " +
                    std::to_string(length) + " ids");
  }
  out.prompt_tokens = static_cast<std::size_t>(prompt);
  if (const auto tokens = integer("budget_tokens"); tokens && !spec.is_full()) {
    if (*tokens < 1 || *tokens > std::numeric_limits<int>::max()) {
      throw DataError(out.where + ": budget_tokens " + std::to_string(*tokens) +
                      ": at least 1 token must stay");
    }
    out.budget.emplace().tokens = int(*tokens);
  }
  return out;
}

PromptLine from_text(const GenerateOptions& options, const Tokenizer& tokenizer) {
  PromptLine out;
  out.where = "--prompt";
  if (options.raw) {
    out.ids = tokenizer.encode(options.prompt, SpecialTokens::kParse);
    if (out.ids.empty()) throw UsageError("--prompt has no token that the model knows");
    out.prompt_tokens = out.ids.size();
    return out;
  }
  const ChatTemplate chat = chat_for(tokenizer);
  if (!chat.notice().empty()) std::cerr << "kvscope: note: " << chat.notice() << '\n';
  out.ids = chat.render_user(options.prompt);
  out.prompt_tokens = out.ids.size();
  out.stop_token = chat.turn_end();
  const auto header = chat.assistant_header();
  out.ids.insert(out.ids.end(), header.begin(), header.end());
  return out;
}

GenerateRequest request_of(const GenerateOptions& options, const PolicySpec& spec,
                           const std::optional<Budget>& common, const PromptLine& line) {
  const std::optional<Budget>& budget = line.budget ? line.budget : common;
  if (!budget) {
    throw UsageError(line.where + ": " + spec.canonical + " needs --budget R or --budget-tokens N");
  }
  const std::span<const std::int32_t> ids(line.ids);
  GenerateRequest request;
  request.prompt = ids.first(line.prompt_tokens);
  request.prefix = ids.subspan(line.prompt_tokens);
  // Where nothing follows the prompt, the engine holds its last id back: budgets refer to what is
  // left.
  const int held_back = request.prefix.empty() ? 1 : 0;
  FitRequest fit;
  fit.budget = *budget;
  fit.length = int(line.prompt_tokens) - held_back;
  if (fit.length < 1) {
    throw DataError(line.where +
                    ": a prompt of 1 token with nothing after it leaves nothing to select from");
  }
  try {
    request.arms.push_back({fit_policy(spec, fit), nullptr});
  } catch (const UsageError& error) {
    throw UsageError(line.where + ": " + error.what());
  }
  request.max_new_tokens = options.max_new_tokens;
  request.stop_token = line.stop_token;
  return request;
}

void print_answer(const GenerateOptions& options, const OpenedModel& opened, const PromptLine& line,
                  const GenerateArmResult& answer) {
  std::vector<std::int32_t> ids = answer.new_ids;
  const std::vector<std::int32_t>& ends = opened.model->config.stop_tokens;
  const bool ended =
      !ids.empty() && (ids.back() == line.stop_token ||
                       std::find(ends.begin(), ends.end(), ids.back()) != ends.end());
  if (ended) ids.pop_back();
  const std::string text = opened.tokenizer->decode(ids);
  if (!options.json) {
    std::cout << text << '\n';
    return;
  }
  Json row = {{"new_ids", answer.new_ids}, {"text", text}, {"mode", name_of(answer.mode)}};
  row["kv"] = ledger_json(answer.ledger);
  print_json_line(std::cout, row);
}

ExitCode run_generate(const GenerateOptions& options, const CudaSupport& cuda) {
  if (options.jsonl.empty() == options.prompt.empty()) {
    throw UsageError("generate: give one of --jsonl FILE or --prompt TEXT");
  }
  if (first_invalid_utf8(options.prompt)) throw DataError("--prompt is not UTF-8");
  const PolicySpec spec =
      parse_policy(options.arm.policy, catalog_with_plugins(options.arm.plugins));
  const auto budget = budget_of(options.arm, spec);
  if (!budget && options.jsonl.empty()) {
    throw UsageError("generate: " + spec.canonical + " needs --budget R or --budget-tokens N");
  }
  const auto rows = options.jsonl.empty() ? std::vector<NumberedLine>() : read_lines(options.jsonl);
  const OpenedModel opened = open_model(options.model, cuda);
  const Tokenizer& tokenizer = *opened.tokenizer;

  std::vector<PromptLine> lines;
  if (options.jsonl.empty()) lines.push_back(from_text(options, tokenizer));
  for (const NumberedLine& row : rows) {
    lines.push_back(parse_line(options.jsonl, row, tokenizer.n_vocab(), spec));
  }
  // Together they read the weights once a step; more would only hold more prompts in memory.
  constexpr std::size_t kBatch = 4;
  std::vector<GenerateRequest> requests;
  for (PromptLine& line : lines) {
    if (!line.stop_token) line.stop_token = tokenizer.eos();
    requests.push_back(request_of(options, spec, budget, line));
  }
  for (std::size_t begin = 0; begin < requests.size() && std::cout; begin += kBatch) {
    const auto batch =
        std::span(requests).subspan(begin, std::min(kBatch, requests.size() - begin));
    const auto results = opened.engine->generate(batch).value();
    for (std::size_t i = 0; i < results.size(); ++i) {
      const GenerateArmResult& answer = results[i].at(0);
      if (!answer.error.empty()) {
        throw std::runtime_error(lines[begin + i].where + ": " + answer.error);
      }
      print_answer(options, opened, lines[begin + i], answer);
    }
    std::cout.flush();
  }
  return ExitCode::kOk;
}

}  // namespace

void add_generate_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate", "One arm answers prompts, greedily; selection runs at the prompt's end");
  command->add_option("--jsonl", options->jsonl,
                      "One {\"ids\": […], \"prompt_tokens\": N[, \"budget_tokens\": K]} a line");
  command->add_option("--prompt", options->prompt,
                      "The user's text, put into the model's chat template");
  command->add_flag("--raw", options->raw, "With --prompt: no chat template");
  add_arm_options(*command, options->arm);
  command
      ->add_option("--max-new-tokens", options->max_new_tokens, "Stop after N tokens (default 64)")
      ->check(CLI::Range(1, 1'000'000));
  add_model_options(*command, options->model);
  command->add_flag("--json", options->json, "One JSON object a prompt");
  command->footer(
      "Examples:\n"
      "  kvscope generate --prompt 'What is the capital of France?' --policy full\n"
      "  kvscope generate --jsonl prompts.jsonl --policy snapkv --budget 0.2 --json");
  set_action(*command, context,
             [options, &context] { return run_generate(*options, context.cuda); });
}

}  // namespace kvscope
