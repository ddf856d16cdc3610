// kvscope bench load: how long it takes to open a model, and what its weights occupy.
#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <optional>

#include "harness/commands/bench.h"
#include "harness/commands/bench_common.h"
#include "harness/report/table.h"

namespace kvscope {
namespace {

// All packed matrices. The embedding table, which is not a matrix of the backend, is not counted.
std::int64_t packed_bytes(const Model& model) {
  std::size_t bytes = model.head->bytes();
  for (const LayerWeights& layer : model.layers) {
    for (const auto* matrix : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) {
      bytes += (*matrix)->bytes();
    }
  }
  return std::int64_t(bytes);
}

ExitCode bench_load(const BenchOptions& options, const CudaSupport& cuda) {
  struct Part {
    const char* key;
    const char* text;
    double LoadSeconds::*seconds;
    Samples samples = {};
  };
  std::array parts = {Part{"file_seconds", "file", &LoadSeconds::file},
                      Part{"tokenizer_seconds", "tokenizer", &LoadSeconds::tokenizer},
                      Part{"sha256_seconds", "sha-256 of the file", &LoadSeconds::sha256},
                      Part{"weights_seconds", "weights", &LoadSeconds::weights}};
  Samples total;
  std::optional<OpenedModel> opened;
  opened.emplace(open_model(options.model, cuda));  // warm-up: from then on the file is in memory
  for (int i = 0; i < options.repetitions; ++i) {
    opened.reset();  // the old one goes first: two would not fit where one does
    total.values.push_back(seconds_of([&] { opened.emplace(open_model(options.model, cuda)); }));
    for (Part& part : parts) part.samples.values.push_back(opened->load_seconds.*part.seconds);
  }
  const std::int64_t matrix_bytes = packed_bytes(*opened->model);
  const std::int64_t process_bytes = peak_process_bytes();
  if (options.json) {
    Json out = bench_json("load", *opened, options);
    out["file"] = opened->file.filename().string();
    for (const Part& part : parts) out[part.key] = samples_json(part.samples);
    out["total_seconds"] = samples_json(total);
    out["packed_matrix_bytes"] = matrix_bytes;
    out["process_peak_bytes"] = process_bytes;
    print_json_line(std::cout, out);
    return ExitCode::kOk;
  }
  Table table({"part", "seconds"});
  for (const Part& part : parts) table.add_row({part.text, samples_text(part.samples, 3)});
  table.add_rule();
  table.add_row({"all", samples_text(total, 3)});
  std::cout << bench_line(*opened, options) << table.text()
            << "packed matrices: " << format_bytes(matrix_bytes)
            << ", peak of the process: " << format_bytes(process_bytes) << '\n';
  return ExitCode::kOk;
}

}  // namespace

void add_bench_load(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = bench.add_subcommand("load", "Opening a model");
  add_bench_options(*command, *options);
  command->footer("Example:\n  kvscope bench load --dtype bf16 --json");
  set_action(*command, context, [options, &context] { return bench_load(*options, context.cuda); });
}

}  // namespace kvscope
