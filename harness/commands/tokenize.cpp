#include "harness/commands/tokenize.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/commands/input.h"
#include "harness/report/json.h"
#include "runner/base/error.h"
#include "runner/tokenizer/open_tokenizer.h"

namespace kvscope {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string tokenizer;
  std::string jsonl;
  std::string file;
  std::string text;
  bool json = false;
};

void print_ids(const std::vector<std::int32_t>& ids, bool json) {
  if (json) {
    print_json_line(std::cout, {{"ids", ids}});
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) std::cout << (i > 0 ? " " : "") << ids[i];
  std::cout << '\n';
}

ExitCode run_tokenize(const TokenizeOptions& options) {
  const int sources = !options.jsonl.empty() + !options.file.empty() + !options.text.empty();
  if (sources != 1)
    throw UsageError("tokenize: give one of --jsonl FILE, --file FILE or --text TEXT");
  const auto tokenizer =
      open_tokenizer(options.tokenizer.empty() ? model_file_or_default(options.model)
                                               : std::filesystem::path(options.tokenizer));
  const auto encode = [&](std::string_view text) {
    return tokenizer->encode(text, SpecialTokens::kParse);
  };
  if (!options.text.empty()) {
    print_ids(encode(options.text), options.json);
    return ExitCode::kOk;
  }
  if (!options.file.empty()) {
    print_ids(encode(read_exact_text(options.file)), options.json);
    return ExitCode::kOk;
  }
  for (const NumberedLine& line : read_lines(options.jsonl)) {
    const auto row = nlohmann::json::parse(line.text, nullptr, false);
    const auto text = row.is_object() ? row.find("text") : row.end();
    if (!row.is_object() || text == row.end() || !text->is_string()) {
      throw DataError(options.jsonl + " line " + std::to_string(line.number) +
                      ": an object like {\"text\": \"…\"} is wanted");
    }
    print_ids(encode(text->get_ref<const std::string&>()), options.json);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_tokenize_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Token ids of texts; special tokens are recognised, no BOS is added");
  command->add_option("--jsonl", options->jsonl,
                      "One {\"text\": …} a line; one line of ids for each");
  command->add_option("--file", options->file, "A whole text file");
  command->add_option("--text", options->text, "The text itself");
  CLI::Option* model = command->add_option(
      "--model", options->model,
      "GGUF file, or folder of a Hugging Face model (default: the fetched model)");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "tokenizer.json, tokenizer.model, a folder with one, or a GGUF file")
      ->excludes(model);
  command->add_flag("--json", options->json, "{\"ids\": […]} a line instead of plain numbers");
  command->footer(
      "Examples:\n"
      "  kvscope tokenize --text 'In 1665 Newton saw'\n"
      "  kvscope tokenize --jsonl texts.jsonl --json\n"
      "  kvscope tokenize --tokenizer tokenizer.json --file book.txt");
  set_action(*command, context, [options] { return run_tokenize(*options); });
}

}  // namespace kvscope
