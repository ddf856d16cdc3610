#include "harness/commands/gate.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <iostream>
#include <set>

#include "harness/gate/gate_run.h"
#include "harness/gate/gate_text.h"
#include "harness/gate/self_test.h"
#include "harness/report/table.h"
#include "harness/store/queries.h"
#include "metrics/stats/pairs_report.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct GateOptions {
  std::string suite;
  std::string database = kDefaultDatabase;
  std::string confirm_database;
  std::string inconclusive = "exit2";
  std::string junit;
  std::string markdown;
  bool github = false;
  bool no_record = false;
  bool json = false;

  bool self_test = false;
  std::vector<std::string> arms;
  std::vector<std::string> metrics;
  int runs = 1'000;
  double alpha = 0.05;
  std::uint64_t seed = 1;
};

// Whole, or not at all: a report cut short would read as a good one.
void write_file(const std::string& file, const std::string& text, bool append) {
  if (file.empty()) return;
  std::ofstream out(file, append ? std::ios::binary | std::ios::app : std::ios::binary);
  out << text << std::flush;
  if (!out) throw IoError(file + ": cannot be written; check the folder and the free space");
}

ExitCode run_suite(const GateOptions& options) {
  const GateSuite suite = read_gate_suite(options.suite);
  GateReport report;
  {
    Store store = Store::open(options.database, StoreAccess::kReadOnly);
    report = run_gate(suite, store);
  }
  if (!options.confirm_database.empty()) {
    Store fresh = Store::open(options.confirm_database, StoreAccess::kReadOnly);
    confirm(report, run_gate(suite, fresh));
  }
  if (options.json) {
    print_json_line(std::cout, gate_json(report));
  } else {
    std::cout << gate_table(report);
  }
  if (options.github) std::cout << gate_annotations(report);
  write_file(options.junit, gate_junit(report), false);
  write_file(options.markdown, gate_markdown(report), true);
  if (!options.no_record) {
    Store store = Store::open(options.database, StoreAccess::kCreate);
    record_gate(store, report);
  }
  return exit_code_of(report.verdict, options.inconclusive);
}

// + is better.
std::vector<Pair> oriented_pairs(const PairedValues& values) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    const Pair pair{values.clusters[i], values.a[i], values.b[i]};
    if (!is_usable_pair(pair)) continue;
    pairs.push_back(values.better == "lower" ? Pair{pair.cluster, pair.b, pair.a} : pair);
  }
  return pairs;
}

// Follows from lengths and budgets, hardly from chance.
bool is_storage(const PairedValues& values) {
  return values.unit == "bytes" || values.unit == "tokens";
}

Json band_json(const Interval& band) { return Json::array({band.low, band.high}); }

std::string band_text(int count, const Interval& band) {
  return std::to_string(count) + " (" + format_significant(band.low, 4) + " … " +
         format_significant(band.high, 4) + ")";
}

ExitCode run_self_tests(const GateOptions& options) {
  if (options.arms.size() != 2) throw UsageError("gate --self-test: name two arms: --arms A B");
  if (!(options.alpha > 0 && options.alpha <= 0.5)) {
    throw UsageError("--alpha: a number above 0 and up to 0.5");
  }
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  const auto [a, b] = find_arm_pair(store, options.arms[0], options.arms[1]);
  const std::set<std::string> wanted(options.metrics.begin(), options.metrics.end());
  Table table({"task", "metric", "pairs", "clusters", "false alarms (99 % band)", "planted effect",
               "found (99 % band)", "as stated"});
  table.align(1, Table::Align::kLeft);
  Json rows = Json::array();
  bool all = true;
  for (const PairedValues& values : paired_values(store, a.arm_id, b.arm_id)) {
    if (wanted.empty() ? is_storage(values) : !wanted.contains(values.metric)) continue;
    const std::vector<Pair> pairs = oriented_pairs(values);
    SelfTest test;
    try {
      test = run_self_test(pairs, options.alpha, options.runs, options.seed);
    } catch (const UsageError&) {
      continue;  // equal values: nothing to draw
    }
    const bool good = test.alarms_as_stated() && test.power_as_stated();
    all = all && good;
    table.add_row({values.task, values.metric, std::to_string(test.pairs),
                   std::to_string(test.clusters),
                   band_text(test.false_alarms, test.false_alarm_band),
                   format_significant(test.planted_effect, 4),
                   band_text(test.detections, test.detection_band), good ? "yes" : "no"});
    rows.push_back({{"task", values.task},
                    {"metric", values.metric},
                    {"pairs", test.pairs},
                    {"clusters", test.clusters},
                    {"runs", test.runs},
                    {"alpha", test.alpha},
                    {"false_alarms", test.false_alarms},
                    {"false_alarm_band_99", band_json(test.false_alarm_band)},
                    {"planted_effect", json_number(test.planted_effect)},
                    {"detections", test.detections},
                    {"detection_band_99", band_json(test.detection_band)},
                    {"as_stated", good}});
  }
  if (rows.empty()) {
    throw DataError(options.database + ": " + a.label + " and " + b.label +
                    " have no metric whose pairs differ");
  }
  if (options.json) {
    print_json_line(std::cout,
                    {{"a", a.label}, {"b", b.label}, {"seed", options.seed}, {"tests", rows}});
  } else {
    std::cout << "A: " << a.label << ", B: " << b.label << "; " << options.runs
              << " gates without a difference, and as many with the one that is seen 80 % of the "
                 "time, at alpha "
              << format_significant(options.alpha, 3) << ".\n\n"
              << table.text();
  }
  return all ? ExitCode::kOk : ExitCode::kGateFailed;
}

ExitCode run_command(const GateOptions& options) {
  if (options.self_test) return run_self_tests(options);
  if (options.suite.empty()) {
    throw UsageError("gate: name a SUITE.json with the checks, or --self-test");
  }
  return run_suite(options);
}

}  // namespace

void add_gate_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<GateOptions>();
  CLI::App* command = app.add_subcommand(
      "gate", "Is an arm worse than its baseline? Pass, fail, inconclusive or error, for CI");
  command->add_option("SUITE.json", options->suite, "The checks (README, \"Gate\")");
  command->add_option("--db", options->database, "Database of sweeps (default kvscope.db)");
  command->add_option("--confirm-db", options->confirm_database,
                      "A sweep of the same arms on fresh samples: a fail must show there, too");
  command
      ->add_option("--inconclusive", options->inconclusive,
                   "What inconclusive checks make of the exit status: exit2, pass or fail")
      ->check(CLI::IsMember({"exit2", "pass", "fail"}));
  command->add_option("--junit", options->junit, "Write JUnit XML to this file");
  command->add_option("--markdown", options->markdown,
                      "Append Markdown to this file, such as $GITHUB_STEP_SUMMARY");
  command->add_flag("--github", options->github, "Print annotations for GitHub Actions");
  command->add_flag("--no-record", options->no_record,
                    "Leave no rows in the database (they are the history of later nights)");
  command->add_flag("--json", options->json, "One JSON object");
  command->add_flag("--self-test", options->self_test,
                    "Try the rule itself on the recorded pairs of two arms");
  command->add_option("--arms", options->arms, "--self-test: the two arms")->expected(2);
  command
      ->add_option("--metrics", options->metrics,
                   "--self-test: only these (default: all that measure quality)")
      ->delimiter(',');
  command->add_option("--runs", options->runs, "--self-test: gates of each kind (default 1000)")
      ->check(CLI::Range(100, 1'000'000));
  command->add_option("--alpha", options->alpha, "--self-test: level (default 0.05)");
  command->add_option("--seed", options->seed, "--self-test: of the draws (default 1)");
  command->footer(
      "Exit status: 0 pass, 1 fail, 2 inconclusive, 3 could not be evaluated.\n"
      "Examples:\n"
      "  kvscope gate docs/examples/gate.json --db nightly.db --junit gate.xml\n"
      "  kvscope gate --self-test --arms full h2o@0.200 --db demo.db");
  set_action(*command, context, [options] { return run_command(*options); });
}

}  // namespace kvscope
