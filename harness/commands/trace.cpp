#include "harness/commands/trace.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>

#include "harness/commands/input.h"
#include "harness/plan/stop_signals.h"
#include "harness/report/json.h"
#include "harness/report/progress.h"
#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/trace/trace_recorder.h"

namespace kvscope {
namespace {

struct RecordOptions {
  ModelOptions model;
  std::string text_file;
  std::string ids_file;
  std::optional<int> tokens;
  int prompt_tokens = 0;
  std::string layers;
  std::string store = "f32";
  std::string out;
  bool json = false;
};

std::vector<int> layers_of(const std::string& text, int n_layers) {
  if (text.empty()) return sampled_layers(n_layers);
  std::vector<int> layers;
  if (text == "all") {
    for (int layer = 0; layer < n_layers; ++layer) layers.push_back(layer);
    return layers;
  }
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    int layer = -1;
    const auto [end, error] = std::from_chars(text.data() + start, text.data() + comma, layer);
    if (error != std::errc{} || end != text.data() + comma || layer < 0 || layer >= n_layers) {
      throw UsageError("--layers: '" + text.substr(start, comma - start) +
                       "' is no layer of this model: write all, or numbers from 0 to " +
                       std::to_string(n_layers - 1) + " like 0,3,5");
    }
    if (std::ranges::find(layers, layer) != layers.end())
      throw UsageError("--layers: " + std::to_string(layer) + " is listed twice");
    layers.push_back(layer);
    start = comma + 1;
  }
  std::ranges::sort(layers);
  return layers;
}

std::vector<std::int32_t> read_ids(const RecordOptions& options, const Tokenizer& tokenizer,
                                   std::string& text) {
  std::vector<std::int32_t> ids;
  if (!options.ids_file.empty()) {
    ids = parse_ids(read_exact_text(options.ids_file), options.ids_file);
    check_ids(ids, tokenizer.n_vocab(), options.ids_file);
  } else {
    text = read_exact_text(options.text_file);
    ids = tokenizer.encode(text, SpecialTokens::kParse);
  }
  if (options.tokens) {
    if (std::size_t(*options.tokens) > ids.size()) {
      throw UsageError("--tokens " + std::to_string(*options.tokens) + ": the text has " +
                       std::to_string(ids.size()) + " tokens");
    }
    if (std::size_t(*options.tokens) < ids.size()) text.clear();  // no longer what the ids say
    ids.resize(std::size_t(*options.tokens));
  }
  return ids;
}

void print_result(const RecordOptions& options, const TraceFacts& facts, std::int64_t bytes) {
  if (options.json) {
    Json out = {{"file", options.out},          {"file_bytes", bytes},
                {"model", facts.model_name},    {"layers", facts.layers},
                {"tokens", facts.n_tokens},     {"prompt_tokens", facts.prompt_tokens},
                {"store", name_of(facts.store)}};
    print_json_line(std::cout, out);
    return;
  }
  std::cout << options.out << ": " << facts.n_tokens << " tokens, " << facts.layers.size() << " of "
            << facts.n_layers << " layers, " << format_bytes(bytes) << '\n';
}

ExitCode run_record(const RecordOptions& options, const CudaSupport& cuda) {
  const StopSignals signals;  // first: loading takes long enough to be interrupted
  if (options.ids_file.empty() == options.text_file.empty())
    throw UsageError("trace record: give one of --text FILE or --ids FILE.json");
  const OpenedModel opened = open_model(options.model, cuda);
  const ModelConfig& config = opened.model->config;
  if (config.window > 0 || config.query_scale > 0.0F || !config.rope_frequency.empty()) {
    throw UsageError("trace record: " + config.name +
                     " has sliding windows, or positions or scales that a trace does not hold; "
                     "measure it with score or sweep");
  }
  TraceFacts facts = facts_of(*opened.model);
  facts.layers = layers_of(options.layers, facts.n_layers);
  facts.store = options.store == "bf16" ? DType::kBF16 : DType::kF32;
  std::string text;
  const std::vector<std::int32_t> ids = read_ids(options, *opened.tokenizer, text);
  facts.n_tokens = int(ids.size());
  facts.prompt_tokens = options.prompt_tokens;
  if (ids.empty()) throw DataError("trace record: the text has no tokens");
  if (facts.prompt_tokens >= facts.n_tokens) {
    throw UsageError("--prompt-tokens " + std::to_string(facts.prompt_tokens) + ": the text has " +
                     std::to_string(facts.n_tokens) + " tokens, and some must follow the prompt");
  }
  std::optional<Progress> progress;
  const auto advanced = [&](int n_layers) {
    if (!progress) progress.emplace("record", facts.n_layers, "layers");
    progress->advance(n_layers);
  };
  const bool done = record_trace(
      *opened.engine, facts, ids, text, options.out, [&] { return signals.requested(); }, advanced);
  progress.reset();  // its last line comes before the result
  if (!done) {
    std::fprintf(stderr, "Stopped; nothing is kept.\n");
    return signals.exit_code().value_or(ExitCode::kTryAgain);
  }
  print_result(options, facts, std::int64_t(std::filesystem::file_size(options.out)));
  return ExitCode::kOk;
}

void add_record(CLI::App& trace, CommandContext& context) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command = trace.add_subcommand(
      "record", "One full-cache run over a text: what its layers were given, for kvscope simulate");
  command->add_option("--text", options->text_file,
                      "UTF-8 text; special tokens are recognised, no BOS");
  command->add_option("--ids", options->ids_file, "JSON array of token ids");
  command->add_option("--tokens", options->tokens, "Only the first N tokens")
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--prompt-tokens", options->prompt_tokens,
                   "The first N tokens are a prompt; without it policies act from the first token "
                   "on (simulate can choose again)")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--layers", options->layers,
                      "all, or layers like 0,7,15 (default: first, last and the quarters between)");
  command->add_option("--store", options->store, "Rows are stored as f32 (default) or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--out", options->out, "The trace file")->required();
  add_model_options(*command, options->model);
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Example:\n"
      "  kvscope trace record --text book.txt --tokens 2048 --prompt-tokens 1024 --out book.trace");
  set_action(*command, context, [options, &context] { return run_record(*options, context.cuda); });
}

}  // namespace

void add_trace_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("trace", "Record a full run to replay policies on");
  command->require_subcommand(1);
  add_record(*command, context);
  command->footer(
      "Examples:\n"
      "  kvscope trace record --text book.txt --tokens 2048 --prompt-tokens 1024 --out book.trace\n"
      "  kvscope simulate book.trace --policies h2o,tova --budgets 0.1,0.2");
}

}  // namespace kvscope
