#include "harness/commands/compare.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "harness/report/identity_notes.h"
#include "harness/report/json.h"
#include "harness/report/paired_json.h"
#include "harness/report/probe_plan.h"
#include "harness/report/table.h"
#include "harness/store/metric_info.h"
#include "harness/store/queries.h"
#include "metrics/stats/pairs_report.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct CompareOptions {
  std::string a;
  std::string b;
  std::string database = kDefaultDatabase;
  std::vector<std::string> metrics;  // empty: all
  std::optional<double> margin;
  bool across_backends = false;
  bool json = false;
};

double mean_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

// What the two arms' probes looked at. Estimates from samples have other names than means over all
// rows, so that the two are never paired; two estimates are, where they are of the same layers.
struct Watched {
  Json a;
  Json b;

  bool may_pair(const std::string& metric) const {
    const auto layers = [](const Json& plan) {
      return plan.is_object() ? plan.value("layers", Json()) : Json();
    };
    return !metric.ends_with(kSampledSuffix) || layers(a) == layers(b);
  }
  std::string text() const {
    const auto words = [](const Json& plan) {
      return plan.is_object() ? plan.value("text", "") : std::string("off");
    };
    if (words(a) == words(b)) return sampled_note(a, "…_sampled");
    return "Probes of A: " + words(a) + "; of B: " + words(b) +
           ". What only one of them measured is not compared.\n";
  }
};

struct Comparison {
  PairedValues values;
  PairedSummary summary;
};

Comparison summarise(PairedValues values, std::optional<double> margin) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    pairs.push_back({values.clusters[i], values.a[i], values.b[i]});
  }
  PairedSummary summary = summarise_pairs(pairs, margin);
  return {std::move(values), std::move(summary)};
}

// Is the difference for the better? Only where the interval excludes zero.
std::string verdict_of(const Comparison& comparison) {
  const PairedT& paired = comparison.summary.paired;
  if (paired.identical) return "identical";
  if (!paired.inference) return "-";
  const Interval& interval = paired.inference->ci95;
  if (interval.low <= 0 && interval.high >= 0) return "no difference shown";
  if (comparison.values.better == "none") return "different";
  return (interval.low > 0) == (comparison.values.better == "higher") ? "better" : "worse";
}

void print_table(const ArmRow& a, const ArmRow& b, std::span<const Comparison> comparisons,
                 std::span<const IdentityNote> notes) {
  const auto origin = [](const ArmRow& arm) {
    return arm.label + " (arm " + std::to_string(arm.arm_id) + ", " + arm.backend + ")\n";
  };
  std::cout << "A: " << origin(a) << "B: " << origin(b)
            << "Differences are B - A on the same samples; clusters are documents.\n\n";
  Table table({"task", "metric", "pairs", "clusters", "mean A", "mean B", "B - A", "95 % interval",
               "p", "B is"});
  table.align(1, Table::Align::kLeft).align(9, Table::Align::kLeft);
  std::string task;
  for (const Comparison& comparison : comparisons) {
    const PairedValues& values = comparison.values;
    const PairedT& paired = comparison.summary.paired;
    if (!task.empty() && task != values.task) table.add_rule();
    task = values.task;
    std::string interval = "-";
    std::string p = "-";
    if (const auto& inference = paired.inference) {
      interval = format_significant(inference->ci95.low, 4) + " … " +
                 format_significant(inference->ci95.high, 4);
      p = format_significant(inference->p_two_sided, 2);
    }
    table.add_row({values.task, values.metric, std::to_string(paired.n),
                   std::to_string(paired.clusters), format_significant(mean_of(values.a), 5),
                   format_significant(mean_of(values.b), 5),
                   paired.mean_difference ? format_significant(*paired.mean_difference, 4) : "-",
                   interval, p, verdict_of(comparison)});
  }
  std::cout << table.text() << notes_text(notes);
}

Json arm_json(const ArmRow& arm) {
  return {{"arm_id", arm.arm_id},
          {"arm_key", arm.arm_key},
          {"label", arm.label},
          {"model", arm.model},
          {"policy", arm.policy},
          {"budget", arm.budget},
          {"question_visibility", arm.question_visibility},
          {"backend", arm.backend},
          {"sweep_uuid", arm.sweep_uuid}};
}

void print_json(const ArmRow& a, const ArmRow& b, std::span<const Comparison> comparisons,
                std::span<const IdentityNote> notes, const Watched& watched) {
  Json rows = Json::array();
  for (const Comparison& comparison : comparisons) {
    const PairedValues& values = comparison.values;
    Json row = {{"task", values.task},
                {"dataset", values.dataset},
                {"dataset_key", values.dataset_key},
                {"metric", values.metric},
                {"unit", values.unit},
                {"better", values.better},
                {"mean_a", json_number(mean_of(values.a))},
                {"mean_b", json_number(mean_of(values.b))},
                {"verdict", verdict_of(comparison)}};
    row.update(paired_summary_json(comparison.summary));
    rows.push_back(std::move(row));
  }
  Json of_a = arm_json(a);
  of_a["probe_plan"] = watched.a;
  Json of_b = arm_json(b);
  of_b["probe_plan"] = watched.b;
  print_json_line(std::cout,
                  {{"a", of_a}, {"b", of_b}, {"metrics", rows}, {"notes", notes_json(notes)}});
}

ExitCode run_compare(const CompareOptions& options) {
  if (options.margin && !(*options.margin >= 0))
    throw UsageError("--margin is a number of at least 0");
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  for (const std::string& name : options.metrics) {
    if (std::ranges::none_of(metric_infos(), [&](const MetricInfo& m) { return m.name == name; })) {
      throw UsageError("--metrics: no metric '" + name + "'; `kvscope list metrics` shows all");
    }
  }
  const auto [a, b] = find_arm_pair(store, options.a, options.b);
  if (a.arm_id == b.arm_id) throw UsageError("compare: " + a.label + " twice; name two arms");
  if (a.question_visibility != b.question_visibility) {
    throw UsageError("compare: the question is " + a.question_visibility + " to " + a.label +
                     " and " + b.question_visibility + " to " + b.label +
                     "; name two arms of one visibility");
  }
  if (a.backend != b.backend && !options.across_backends) {
    throw UsageError("compare: " + a.label + " ran on " + a.backend + " and " + b.label + " on " +
                     b.backend +
                     ", whose rounding differs; --across-backends compares them all the same");
  }
  const Watched watched{stored_probe_plan(store, a.sweep_uuid),
                        stored_probe_plan(store, b.sweep_uuid)};
  std::vector<Comparison> comparisons;
  for (PairedValues& values : paired_values(store, a.arm_id, b.arm_id)) {
    const auto& wanted = options.metrics;
    if (values.a.empty() || !watched.may_pair(values.metric)) continue;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), values.metric) == wanted.end()) {
      continue;
    }
    comparisons.push_back(summarise(std::move(values), options.margin));
  }
  if (comparisons.empty()) {
    throw DataError(options.database + ": " + a.label + " and " + b.label +
                    " share no finished sample with such a metric");
  }
  const auto notes = identity_notes(store, std::vector<ArmRow>{a, b});
  if (options.json) {
    print_json(a, b, comparisons, notes, watched);
  } else {
    print_table(a, b, comparisons, notes);
    std::cout << watched.text();
  }
  return ExitCode::kOk;
}

}  // namespace

void add_compare_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Two arms on the samples they share: paired differences with 95 % intervals");
  command->add_option("A", options->a, "Arm: POLICY@BUDGET, row id or key (see list arms)")
      ->required();
  command->add_option("B", options->b, "Arm; the difference is B - A")->required();
  command->add_option("--db", options->database, "Database of sweeps (default kvscope.db)");
  command->add_option("--metrics", options->metrics, "Only these, separated by commas")
      ->delimiter(',');
  command->add_option("--margin", options->margin,
                      "Largest loss that counts as none (non-inferiority)");
  command->add_flag("--across-backends", options->across_backends,
                    "Allow arms of different backends: the difference then holds their rounding");
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  kvscope compare full h2o@0.200 --db demo.db\n"
      "  kvscope compare full 'snapkv@0.200 question=hidden' --db demo.db\n"
      "  kvscope compare snapkv@0.200 tova@0.200 --db demo.db --metrics gold_nll_nats --json");
  set_action(*command, context, [options] { return run_compare(*options); });
}

}  // namespace kvscope
