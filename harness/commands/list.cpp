#include "harness/commands/list.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "datasets/questions/format.h"
#include "harness/commands/ledger_report.h"
#include "harness/report/json.h"
#include "harness/report/table.h"
#include "harness/report/time_text.h"
#include "harness/store/metric_info.h"
#include "harness/store/queries.h"
#include "harness/tasks/task.h"
#include "metrics/quality/scorers.h"
#include "runner/base/error.h"
#include "runner/policies/catalog.h"
#include "runner/policies/parts.h"

namespace kvscope {
namespace {

// Ids begin with the time: two of one minute differ only after the first group.
constexpr std::size_t kShownUuid = 13;

struct ListOptions {
  std::string what;
  std::vector<std::string> plugins;  // files
  std::string database = kDefaultDatabase;
  bool json = false;
};

// Rows as JSON and as a table, whatever is listed.
struct Listing {
  Table table;
  Json rows = Json::array();
};

// A default for people: what "auto" comes to stands in the text of the values, "(auto: 4, …)".
std::string default_text(const ParamInfo& param) {
  std::string text(param.fallback);
  constexpr std::string_view kAuto = "(auto: ";
  const std::size_t at = param.values.find(kAuto);
  if (text != "auto" || at == std::string_view::npos) return text;
  const std::string_view value = param.values.substr(at + kAuto.size());
  return text + " (" + std::string(value.substr(0, value.find_first_of(",;)"))) + ")";
}

Json params_json(std::span<const ParamInfo> params) {
  Json out = Json::array();
  for (const ParamInfo& param : params) {
    out.push_back({{"name", param.name}, {"default", param.fallback}, {"values", param.values}});
  }
  return out;
}

std::string params_text(std::span<const ParamInfo> params) {
  std::string text;
  for (const ParamInfo& param : params) {
    text += (text.empty() ? "" : " ") + std::string(param.name) + "=" + default_text(param);
  }
  return text.empty() ? "-" : text;
}

Listing list_policies(const PolicyCatalog& catalog) {
  Listing out{Table({"policy", "parameters", "what it does"})};
  out.table.align(1, Table::Align::kLeft).align(2, Table::Align::kLeft);
  for (const auto& entry : catalog.all()) {
    const PolicyInfo& policy = *entry;
    // Common keys whose default this policy changes belong to what one must know of it.
    std::string text = params_text(policy.params);
    const auto add = [&](std::string_view key, std::string_view value) {
      text = (text == "-" ? "" : text + " ") + std::string(key) + "=" + std::string(value);
    };
    if (policy.default_decode != DecodeMode::kSelf) add("decode", name_of(policy.default_decode));
    if (policy.default_positions != PositionMode::kAbsolute)
      add("positions", name_of(policy.default_positions));
    out.table.add_row({std::string(policy.name), text,
                       std::string(policy.summary) + " (" + std::string(policy.paper) + ")"});
    out.rows.push_back({{"name", policy.name},
                        {"summary", policy.summary},
                        {"paper", policy.paper},
                        {"source", policy.source},
                        {"acts_in_stream", policy.has_in_stream_rule},
                        {"decode", name_of(policy.default_decode)},
                        {"positions", name_of(policy.default_positions)},
                        {"params", params_json(policy.params)}});
    if (!policy.plugin_sha256.empty()) out.rows.back()[kPluginSha256] = policy.plugin_sha256;
  }
  out.table.add_rule();
  out.table.add_row({"every policy", "", params_text(common_params())});
  out.table.add_rule();
  for (const PartInfo& part : parts()) {
    out.table.add_row({"+" + std::string(part.name), params_text(part.params),
                       std::string(part.summary) + " (" + std::string(part.paper) + ")"});
    out.rows.push_back({{"name", "+" + std::string(part.name)},
                        {"summary", part.summary},
                        {"paper", part.paper},
                        {"source", part.source},
                        {"alone", part.alone},
                        {"params", params_json(part.params)}});
  }
  return out;
}

Listing list_tasks() {
  Listing out{Table({"task", "key", "default", "what it does"})};
  for (const std::size_t column : {1, 2, 3}) out.table.align(column, Table::Align::kLeft);
  for (const TaskInfo& task : task_infos()) {
    if (!out.table.empty()) out.table.add_rule();
    out.table.add_row({std::string(task.name), "", "", std::string(task.summary)});
    Json keys = Json::array();
    for (const TaskKey& key : task.keys) {
      out.table.add_row(
          {"", std::string(key.name), std::string(key.fallback), std::string(key.help)});
      keys.push_back({{"name", key.name}, {"default", key.fallback}, {"help", key.help}});
    }
    out.rows.push_back({{"name", task.name},
                        {"summary", task.summary},
                        {"primary_metric", task.primary_metric},
                        {"keys", keys}});
  }
  return out;
}

Listing list_metrics() {
  Listing out{Table({"metric", "unit", "better", "what it is"})};
  for (const std::size_t column : {1, 2, 3}) out.table.align(column, Table::Align::kLeft);
  for (const MetricInfo& metric : metric_infos()) {
    out.table.add_row({std::string(metric.name), std::string(metric.unit),
                       std::string(metric.better), std::string(metric.help)});
    out.rows.push_back({{"name", metric.name},
                        {"unit", metric.unit},
                        {"kind", metric.kind},
                        {"better", metric.better},
                        {"help", metric.help}});
  }
  return out;
}

Listing list_scorers() {
  Listing out{Table({"scorer", "benchmark's name", "kind", "what it is"})};
  for (const std::size_t column : {1, 2, 3}) out.table.align(column, Table::Align::kLeft);
  for (const ScorerInfo& scorer : scorer_infos()) {
    out.table.add_row({std::string(scorer.name), std::string(scorer.upstream),
                       std::string(scorer.kind), std::string(scorer.help)});
    out.rows.push_back({{"name", scorer.name},
                        {"upstream", scorer.upstream},
                        {"kind", scorer.kind},
                        {"needs_jieba", scorer.needs_words},
                        {"help", scorer.help}});
  }
  return out;
}

Listing list_formats() {
  Listing out{Table({"format", "is", "main metric", "what it holds"})};
  for (const std::size_t column : {1, 2, 3}) out.table.align(column, Table::Align::kLeft);
  const auto add = [&](const auto& format, const char* is) {
    out.table.add_row(
        {std::string(format.name), is, std::string(format.metric), std::string(format.summary)});
    out.rows.push_back({{"name", format.name},
                        {"is", is},
                        {"metric", format.metric},
                        {"summary", format.summary}});
  };
  for (const FormatInfo& format : format_infos()) add(format, "file");
  for (const FolderFormatInfo& format : folder_format_infos()) add(format, "folder");
  return out;
}

Listing list_arms_of(const ListOptions& options) {
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  Listing out{Table({"arm", "label", "model", "dtype", "backend", "prefill", "positions",
                     "question", "status", "ok", "error", "skipped", "sweep"})};
  for (const std::size_t column : {1, 2, 3, 4, 5, 6, 7, 8, 12}) {
    out.table.align(column, Table::Align::kLeft);
  }
  for (const ArmRow& arm : list_arms(store)) {
    out.table.add_row({std::to_string(arm.arm_id), arm.label, arm.model, arm.dtype, arm.backend,
                       arm.prefill_mode, arm.position_mode, arm.question_visibility, arm.status,
                       std::to_string(arm.n_ok), std::to_string(arm.n_error),
                       std::to_string(arm.n_skipped), arm.sweep_uuid.substr(0, kShownUuid)});
    out.rows.push_back({{"arm_id", arm.arm_id},
                        {"arm_key", arm.arm_key},
                        {"label", arm.label},
                        {"model", arm.model},
                        {"policy", arm.policy},
                        {"budget", arm.budget},
                        {"prefill_mode", arm.prefill_mode},
                        {"position_mode", arm.position_mode},
                        {"question_visibility", arm.question_visibility},
                        {"dtype", arm.dtype},
                        {"kv_dtype", arm.kv_dtype},
                        {"backend", arm.backend},
                        {"is_reference", arm.is_reference},
                        {"status", arm.status},
                        {"n_ok", arm.n_ok},
                        {"n_error", arm.n_error},
                        {"n_skipped", arm.n_skipped},
                        {"sweep_uuid", arm.sweep_uuid}});
  }
  return out;
}

Listing list_runs_of(const ListOptions& options) {
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  Listing out{
      Table({"run", "sweep", "status", "started (UTC)", "time", "arms", "results", "version"})};
  for (const std::size_t column : {1, 2, 3, 7}) out.table.align(column, Table::Align::kLeft);
  for (const RunRow& run : list_runs(store)) {
    const double seconds = run.finished_unix ? *run.finished_unix - run.started_unix : -1.0;
    out.table.add_row({run.run_uuid.substr(0, kShownUuid), run.sweep_uuid.substr(0, kShownUuid),
                       run.status, utc_text(run.started_unix), format_duration(seconds),
                       std::to_string(run.n_arms), std::to_string(run.n_results),
                       run.program_version});
    out.rows.push_back({{"run_uuid", run.run_uuid},
                        {"sweep_uuid", run.sweep_uuid},
                        {"status", run.status},
                        {"started_unix", run.started_unix},
                        {"finished_unix", run.finished_unix ? Json(*run.finished_unix) : Json()},
                        {"program_version", run.program_version},
                        {"host", run.host},
                        {"backend", run.backend},
                        {"device_memory", device_memory_json(run.device_memory)},
                        {"argv", Json::parse(run.argv_json, nullptr, false)},
                        {"n_arms", run.n_arms},
                        {"n_results", run.n_results}});
  }
  return out;
}

ExitCode run_list(const ListOptions& options) {
  const Listing listing = options.what == "policies"
                              ? list_policies(catalog_with_plugins(options.plugins))
                          : options.what == "tasks"   ? list_tasks()
                          : options.what == "metrics" ? list_metrics()
                          : options.what == "scorers" ? list_scorers()
                          : options.what == "formats" ? list_formats()
                          : options.what == "arms"    ? list_arms_of(options)
                                                      : list_runs_of(options);
  if (options.json) {
    print_json_line(std::cout, listing.rows);
  } else {
    std::cout << listing.table.text();
  }
  return ExitCode::kOk;
}

}  // namespace

void add_list_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand(
      "list", "What there is: policies, tasks, metrics, scorers, formats, arms or runs");
  command
      ->add_option("WHAT", options->what,
                   "policies | tasks | metrics | scorers | formats | arms | runs")
      ->required()
      ->check(
          CLI::IsMember({"policies", "tasks", "metrics", "scorers", "formats", "arms", "runs"}));
  add_plugin_option(*command, options->plugins);
  command->add_option("--db", options->database,
                      "Database, for arms and runs (default kvscope.db)");
  command->add_flag("--json", options->json, "One JSON array");
  command->footer("Examples:\n  kvscope list policies\n  kvscope list arms --db demo.db --json");
  set_action(*command, context, [options] { return run_list(*options); });
}

}  // namespace kvscope
