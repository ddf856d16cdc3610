#include "harness/commands/export.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "harness/report/json.h"
#include "harness/report/lm_eval.h"
#include "harness/store/queries.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct ExportOptions {
  std::string what;
  std::string lm_eval;  // folder
  std::string database = kDefaultDatabase;
  bool json = false;
};

// A run's arms are its sweep's; else the one arm that is named.
std::vector<ArmRow> arms_named(Store& store, const std::string& what) {
  constexpr std::size_t kShortestUuid = 8;
  if (what.size() >= kShortestUuid) {
    std::vector<RunRow> runs = list_runs(store);
    std::erase_if(runs, [&](const RunRow& run) { return !run.run_uuid.starts_with(what); });
    if (runs.size() > 1) {
      throw UsageError("'" + what + "' could be " + std::to_string(runs.size()) +
                       " runs; write more of the id");
    }
    if (!runs.empty()) return list_arms(store, runs.front().sweep_uuid);
  }
  return {find_arm(store, what)};
}

ExitCode run_export(const ExportOptions& options) {
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  Json files = Json::array();
  for (const ArmRow& arm : arms_named(store, options.what)) {
    for (const auto& file : write_lm_eval(store, arm, options.lm_eval)) {
      files.push_back(file.string());
      if (!options.json) std::cout << file.string() << '\n';
    }
  }
  if (options.json) print_json_line(std::cout, {{"files", files}});
  return ExitCode::kOk;
}

}  // namespace

void add_export_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Results in other programs' layouts");
  command
      ->add_option(
          "WHAT", options->what,
          "Run (id as list runs prints it): all its arms; or an arm (POLICY@BUDGET, row id)")
      ->required();
  command
      ->add_option(
          "--lm-eval", options->lm_eval,
          "Folder for lm-evaluation-harness' results_….json and samples_….jsonl, one folder an "
          "arm inside; prompts are not stored and stand there as hashes")
      ->required();
  command->add_option("--db", options->database, "Database of sweeps (default kvscope.db)");
  command->add_flag("--json", options->json, "The files as one JSON object");
  command->footer("Example:\n  kvscope export --lm-eval results 01a228b0-5f90 --db demo.db");
  set_action(*command, context, [options] { return run_export(*options); });
}

}  // namespace kvscope
