#include "harness/commands/show.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "harness/commands/ledger_report.h"
#include "harness/commands/show_events.h"
#include "harness/report/distribution.h"
#include "harness/report/identity_notes.h"
#include "harness/report/json.h"
#include "harness/report/probe_plan.h"
#include "harness/report/table.h"
#include "harness/report/time_text.h"
#include "harness/store/memory_kinds.h"
#include "harness/store/queries.h"
#include "harness/store/sketches.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct ShowOptions {
  std::string what;
  std::string database = kDefaultDatabase;
  int events = 0;
  bool json = false;
};

Json metrics_json(const ResultRow& result) {
  Json metrics = Json::object();
  for (const auto& [name, value] : result.metrics) metrics[name] = json_number(value);
  return metrics;
}

// About the arm beside the others of its sweep.
std::vector<IdentityNote> notes_about(Store& store, const ArmRow& arm) {
  auto notes = identity_notes(store, list_arms(store, arm.sweep_uuid));
  std::erase_if(notes, [&](const IdentityNote& note) {
    return note.arm_id != arm.arm_id && note.other_arm_id != arm.arm_id;
  });
  return notes;
}

void show_arm(Store& store, const ArmRow& arm, int n_events, bool json) {
  const auto metrics = arm_metrics(store, arm.arm_id);
  const auto sketches = arm_sketches(store, arm.arm_id);
  const auto kinds = arm_kinds(store, arm.arm_id);
  const auto results = arm_results(store, arm.arm_id);
  const auto notes = notes_about(store, arm);
  const Json plan = stored_probe_plan(store, arm.sweep_uuid);
  const auto survival = survival_by_verdict(store, arm.arm_id);
  const auto events = heaviest_events_of_arm(store, arm.arm_id, n_events);
  if (json) {
    Json rows = Json::array();
    for (const ArmMetricRow& row : metrics) {
      rows.push_back({{"task", row.task},
                      {"dataset", row.dataset},
                      {"metric", row.metric},
                      {"unit", row.unit},
                      {"n", row.n},
                      {"mean", json_number(row.mean)},
                      {"stderr", row.stderr_mean ? json_number(*row.stderr_mean) : Json()},
                      {"distribution", distribution_json(find_sketch(sketches, row))}});
    }
    Json faults = Json::array();
    for (const ResultRow& result : results) {
      if (result.status == "ok") continue;
      faults.push_back({{"sample", result.sample_key},
                        {"task", result.task},
                        {"status", result.status},
                        {"reason", result.error}});
    }
    print_json_line(std::cout, {{"arm_id", arm.arm_id},
                                {"arm_key", arm.arm_key},
                                {"label", arm.label},
                                {"model", arm.model},
                                {"dtype", arm.dtype},
                                {"kv_dtype", arm.kv_dtype},
                                {"backend", arm.backend},
                                {"prefill_mode", arm.prefill_mode},
                                {"position_mode", arm.position_mode},
                                {"question_visibility", arm.question_visibility},
                                {"status", arm.status},
                                {"sweep_uuid", arm.sweep_uuid},
                                {"probe_plan", plan},
                                {"metrics", rows},
                                {"diagnosis", diagnosis_json(metrics)},
                                {"kv_kinds", kinds_json(kinds)},
                                {"not_ok", faults},
                                {"notes", notes_json(notes)},
                                {"evidence", survival_json(survival)},
                                {"events", events_json(events)}});
    return;
  }
  std::cout << arm.label << "  (arm " << arm.arm_id << ", key " << arm.arm_key.substr(0, 12)
            << ")\nmodel " << arm.model << ", " << arm.dtype << " weights, " << arm.kv_dtype
            << " cache, backend " << arm.backend << ", prefill " << arm.prefill_mode
            << ", positions " << arm.position_mode << ", question " << arm.question_visibility
            << "\nsweep " << arm.sweep_uuid << ", " << arm.status << ": " << arm.n_ok << " ok, "
            << arm.n_error << " errors, " << arm.n_skipped << " skipped\n\n";
  // Percentiles and the worst head are over rows and heads, the mean and its error over samples.
  Table table(
      {"task", "metric", "unit", "n", "mean", "± s.e.", "p50", "p95", "p99", "max", "worst head"});
  table.align(1, Table::Align::kLeft).align(2, Table::Align::kLeft).align(10, Table::Align::kLeft);
  for (const ArmMetricRow& row : metrics) {
    std::vector<std::string> cells = {
        row.task,
        row.metric,
        row.unit,
        std::to_string(row.n),
        format_significant(row.mean, 6),
        row.stderr_mean ? format_significant(*row.stderr_mean, 2) : "-"};
    for (std::string& cell : distribution_cells(find_sketch(sketches, row))) {
      cells.push_back(std::move(cell));
    }
    table.add_row(std::move(cells));
  }
  std::cout << table.text() << sampled_note(plan, "…_sampled") << kinds_text(kinds)
            << diagnosis_text(metrics);
  // Many samples share one reason: once is enough.
  std::vector<std::string> reasons;
  for (const ResultRow& result : results) {
    if (result.status == "ok") continue;
    const std::string line = result.task + ": " + result.status + ": " + result.error;
    if (std::find(reasons.begin(), reasons.end(), line) == reasons.end()) reasons.push_back(line);
  }
  for (const std::string& line : reasons) std::cout << line << '\n';
  std::cout << notes_text(notes) << survival_text(survival) << events_text(events);
}

void show_run(Store& store, const RunRow& run, bool json) {
  const std::optional<ProcessMemory> memory = process_memory(store, run.run_id);
  const Json row = {{"run_uuid", run.run_uuid},
                    {"sweep_uuid", run.sweep_uuid},
                    {"status", run.status},
                    {"started_unix", run.started_unix},
                    {"finished_unix", run.finished_unix ? Json(*run.finished_unix) : Json()},
                    {"program_version", run.program_version},
                    {"host", run.host},
                    {"backend", run.backend},
                    {"device_memory", device_memory_json(run.device_memory)},
                    {"process_memory", process_memory_json(memory)},
                    {"argv", Json::parse(run.argv_json, nullptr, false)},
                    {"n_arms", run.n_arms},
                    {"n_results", run.n_results}};
  if (json) {
    print_json_line(std::cout, row);
    return;
  }
  Table table({"run", run.run_uuid});
  table.align(1, Table::Align::kLeft);
  table.add_row({"sweep", run.sweep_uuid});
  table.add_row({"status", run.status});
  table.add_row({"started (UTC)", utc_text(run.started_unix)});
  if (run.finished_unix) table.add_row({"finished (UTC)", utc_text(*run.finished_unix)});
  table.add_row({"program", run.program_version});
  table.add_row({"host", run.host});
  table.add_row({"backend", run.backend});
  if (run.device_memory) {
    table.add_row({"device memory", format_bytes(run.device_memory->peak_bytes) + " at most, " +
                                        format_bytes(run.device_memory->driver_delta_bytes) +
                                        " by the driver"});
  }
  if (memory) {
    table.add_row({"process memory", format_bytes(memory->process_peak_bytes) +
                                         " at most, of it pages of keys and values " +
                                         format_bytes(memory->page_pool_peak_bytes)});
  }
  table.add_row({"command", run.argv_json});
  table.add_row({"arms", std::to_string(run.n_arms)});
  table.add_row({"results", std::to_string(run.n_results)});
  std::cout << table.text();
}

struct SampleOfArm {
  std::int64_t arm_id = 0;
  std::string label;
  std::string question_visibility;
  ResultRow result;
};

// What every arm of the newest sweep did on one sample.
std::vector<SampleOfArm> find_sample(Store& store, const std::string& key) {
  std::vector<SampleOfArm> found;
  for (const ArmRow& arm : list_arms(store, newest_sweep(store))) {
    for (ResultRow& result : arm_results(store, arm.arm_id)) {
      if (result.sample_key == key) {
        found.push_back({arm.arm_id, arm.label, arm.question_visibility, std::move(result)});
      }
    }
  }
  return found;
}

void show_sample(Store& store, std::span<const SampleOfArm> arms, int n_events, bool json) {
  const ResultRow& first = arms.front().result;
  const auto events_of = [&](std::int64_t arm_id) {
    return heaviest_events_of_sample(store, arm_id, first.sample_key, n_events);
  };
  if (json) {
    Json rows = Json::array();
    for (const auto& [arm_id, label, question, result] : arms) {
      rows.push_back({{"arm", label},
                      {"question_visibility", question},
                      {"status", result.status},
                      {"reason", result.error},
                      {"mode_run", result.mode_run},
                      {"output", result.output_text},
                      {"metrics", metrics_json(result)},
                      {"events", events_json(events_of(arm_id))}});
    }
    print_json_line(std::cout, {{"sample", first.sample_key},
                                {"task", first.task},
                                {"dataset", first.dataset},
                                {"cluster", first.cluster_key},
                                {"gold", first.gold_text},
                                {"arms", rows}});
    return;
  }
  std::cout << "sample " << first.sample_key << " of " << first.dataset << " (" << first.task
            << "), cluster " << first.cluster_key << '\n';
  if (!first.gold_text.empty()) std::cout << "gold answer: " << first.gold_text << '\n';
  // Arms that see the question and arms that do not never stand in one table.
  for (const char* visibility : {"visible", "hidden"}) {
    Table table({"arm", "status", "metrics", "output"});
    for (const std::size_t column : {1, 2, 3}) table.align(column, Table::Align::kLeft);
    for (const auto& [arm_id, label, question, result] : arms) {
      if (question != visibility) continue;
      std::string metrics;
      for (const auto& [name, value] : result.metrics) {
        if (name.find("bytes") != std::string::npos) continue;
        metrics += (metrics.empty() ? "" : " ") + name + "=" + format_significant(value, 4);
      }
      table.add_row({label, result.status, metrics,
                     result.error.empty() ? result.output_text : result.error});
    }
    if (!table.empty()) std::cout << '\n' << table.text();
  }
  for (const SampleOfArm& arm : arms) {
    const auto events = events_of(arm.arm_id);
    if (!events.empty()) std::cout << '\n' << arm.label << ':' << events_text(events);
  }
}

ExitCode run_show(const ShowOptions& options) {
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  // A run's uuid or its first characters, as `list runs` prints them.
  constexpr std::size_t kShortestUuid = 8;
  if (options.what.size() >= kShortestUuid) {
    std::vector<RunRow> matching = list_runs(store);
    std::erase_if(matching,
                  [&](const RunRow& run) { return !run.run_uuid.starts_with(options.what); });
    if (matching.size() > 1) {
      std::string candidates;
      for (const RunRow& run : matching) {
        candidates += (candidates.empty() ? "" : ", ") + run.run_uuid;
      }
      throw UsageError("database " + options.database + ": '" + options.what +
                       "' could be the runs " + candidates + "; write more of the id");
    }
    if (!matching.empty()) {
      show_run(store, matching.front(), options.json);
      return ExitCode::kOk;
    }
  }
  const auto sample = find_sample(store, options.what);
  if (!sample.empty()) {
    show_sample(store, sample, options.events, options.json);
    return ExitCode::kOk;
  }
  show_arm(store, find_arm(store, options.what), options.events, options.json);
  return ExitCode::kOk;
}

}  // namespace

void add_show_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "Everything about one arm, run or sample");
  command
      ->add_option(
          "WHAT", options->what,
          "Arm (POLICY@BUDGET, row id, key), run (id as list runs prints it) or sample key")
      ->required();
  command->add_option("--db", options->database, "Database of sweeps (default kvscope.db)");
  command
      ->add_option(
          "--events", options->events,
          "Of an arm or sample: so many rebound events, the heaviest first (of samples that "
          "sweep --trace named)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  kvscope show h2o@0.200 --db demo.db\n"
      "  kvscope show h2o@0.200 --events 20 --db demo.db\n"
      "  kvscope show 01a228b0-5f90 --db demo.db --json");
  set_action(*command, context, [options] { return run_show(*options); });
}

}  // namespace kvscope
