// kvscope lint: traps in data sets, in a database, and in arms where nothing is to be evicted.
#include "harness/commands/lint.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/commands/sweep_run.h"
#include "harness/plan/lint.h"
#include "harness/report/json.h"
#include "harness/tasks/task.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct LintOptions {
  ModelOptions model;
  std::string tasks;
  TaskFiles files;
  std::string database;
  std::string policies;
  std::vector<std::string> plugins;
  bool json = false;
};

// Two prompts of 128 tokens, and a budget that no policy has to cut them for.
constexpr const char* kShortTask = "needle:length=128:samples=2";
constexpr const char* kAmpleBudget = "4096";

std::vector<std::string> identity_findings(const LintOptions& options, const OpenedModel& opened) {
  const std::vector<ArmPlan> arms =
      expand_arms({options.policies, "", kAmpleBudget, "visible", options.plugins});
  const TaskSpec spec = parse_tasks(kShortTask).front();
  const auto task = find_task(spec.name)->make(spec, {}, *opened.tokenizer);
  const TaskRun run{*opened.engine, *opened.tokenizer, arms, ProbeLevel::kOff, false, {}};
  return lint_identity(run, *task);
}

void print(const std::vector<std::string>& lines, const char* what, bool json, Json& out) {
  out[what] = lines;
  if (json) return;
  for (const std::string& line : lines) std::cout << "warning: " << line << '\n';
  if (lines.empty()) std::cout << what << ": no findings\n";
}

ExitCode run_lint(const LintOptions& options, const CudaSupport& cuda) {
  if (options.tasks.empty() && options.database.empty() && options.policies.empty()) {
    throw UsageError("lint: give --tasks, --db or --policies");
  }
  Json out = Json::object();
  ExitCode code = ExitCode::kOk;
  const auto tokenizer = open_model_tokenizer(options.model.file, options.model.chat_template);
  if (!options.tasks.empty()) {
    std::vector<std::string> found;
    const TaskFiles files = with_prepared_text(options.files);
    for (const TaskSpec& spec : parse_tasks(options.tasks)) {
      const auto task = find_task(spec.name)->make(spec, files, *tokenizer);
      for (std::string& line : lint_dataset(task->dataset(), *tokenizer, 0)) {
        found.push_back(std::move(line));
      }
    }
    print(found, "tasks", options.json, out);
  }
  if (!options.database.empty()) {
    Store store = Store::open(options.database, StoreAccess::kReadOnly);
    print(lint_database(store, *tokenizer), "database", options.json, out);
  }
  if (!options.policies.empty()) {
    const OpenedModel opened = open_model(options.model, cuda);
    const auto found = identity_findings(options, opened);
    print(found, "identity", options.json, out);
    if (!found.empty()) code = ExitCode::kGateFailed;
  }
  if (options.json) print_json_line(std::cout, out);
  return code;
}

}  // namespace

void add_lint_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<LintOptions>();
  CLI::App* command =
      app.add_subcommand("lint",
                         "Traps in data sets and databases; arms that change what they "
                         "should leave alone");
  command->add_option("--tasks", options->tasks, "Check these tasks' samples; nothing is run");
  add_task_file_options(*command, options->files);
  command->add_option("--db", options->database, "Check what a database holds");
  command->add_option("--policies", options->policies,
                      "Run these on prompts that the budget holds whole: answers must be the full "
                      "cache's, bit for bit");
  add_plugin_option(*command, options->plugins);
  add_model_options(*command, options->model);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  kvscope lint --tasks needle,qa\n"
      "  kvscope lint --db results.db --policies h2o,snapkv,tova\n"
      "Exit status 1 if an arm changes what it should leave alone.");
  set_action(*command, context, [options, &context] { return run_lint(*options, context.cuda); });
}

}  // namespace kvscope
