#include "harness/commands/power.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>

#include "harness/report/json.h"
#include "harness/report/table.h"
#include "harness/store/queries.h"
#include "metrics/stats/pairs_report.h"
#include "metrics/stats/sample_size.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct PowerOptions {
  std::string a;
  std::string b;
  std::string database = kDefaultDatabase;
  std::vector<std::string> metrics;
  std::optional<double> margin;
  double alpha = 0.05;
  double power = 0.80;
  bool json = false;
};

struct Needs {
  std::int64_t pairs = 0;
  std::int64_t clusters = 0;
  double se_paired = 0;
  double se_unpaired = 0;  // of the same means, had the arms seen different samples
  double detectable_effect = 0;
  std::optional<std::int64_t> clusters_paired;    // to find the margin
  std::optional<std::int64_t> clusters_unpaired;  // likewise, of each arm
};

double clustered_se(const std::vector<Pair>& pairs, double Pair::*column) {
  std::vector<Pair> one;
  for (const Pair& pair : pairs) one.push_back({pair.cluster, 0.0, pair.*column});
  return paired_t(one, std::nullopt).inference->se_clustered;
}

std::optional<Needs> needs_of(const PairedValues& values, const PowerOptions& options) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    const Pair pair{values.clusters[i], values.a[i], values.b[i]};
    if (is_usable_pair(pair)) pairs.push_back(pair);
  }
  const PairedT paired = paired_t(pairs, std::nullopt);
  if (!paired.inference || !(paired.inference->se_clustered > 0)) return std::nullopt;
  Needs needs;
  needs.pairs = paired.n;
  needs.clusters = paired.clusters;
  needs.se_paired = paired.inference->se_clustered;
  needs.se_unpaired = std::hypot(clustered_se(pairs, &Pair::a), clustered_se(pairs, &Pair::b));
  needs.detectable_effect =
      detectable_effect_in_se(paired.inference->df, options.alpha, options.power) * needs.se_paired;
  if (options.margin) {
    const auto needed = [&](double se) {
      return clusters_needed(*options.margin, se, needs.clusters, options.alpha, options.power);
    };
    needs.clusters_paired = needed(needs.se_paired);
    needs.clusters_unpaired = needed(needs.se_unpaired);
  }
  return needs;
}

Json count_json(const std::optional<std::int64_t>& count) {
  return count ? Json(*count) : Json(nullptr);
}

std::string count_text(const std::optional<std::int64_t>& count) {
  return count ? std::to_string(*count) : "-";
}

ExitCode run_power(const PowerOptions& options) {
  if (options.margin && !(std::isfinite(*options.margin) && *options.margin > 0)) {
    throw UsageError("--margin: the smallest loss that must be found is a number above 0");
  }
  if (!(options.alpha > 0 && options.alpha <= 0.5)) {
    throw UsageError("--alpha: a number above 0 and up to 0.5");
  }
  if (!(options.power > options.alpha && options.power < 1)) {
    throw UsageError("--power: a number above alpha and below 1");
  }
  Store store = Store::open(options.database, StoreAccess::kReadOnly);
  const auto [a, b] = find_arm_pair(store, options.a, options.b);
  Table table({"task", "metric", "pairs", "clusters", "would see", "clusters needed", "if unpaired",
               "samples unpaired : paired"});
  table.align(1, Table::Align::kLeft);
  Json rows = Json::array();
  for (const PairedValues& values : paired_values(store, a.arm_id, b.arm_id)) {
    const auto& wanted = options.metrics;
    const bool is_storage = values.unit == "bytes" || values.unit == "tokens";
    if (wanted.empty() ? is_storage : std::ranges::find(wanted, values.metric) == wanted.end()) {
      continue;
    }
    const std::optional<Needs> needs = needs_of(values, options);
    if (!needs) continue;
    const double ratio = std::pow(needs->se_unpaired / needs->se_paired, 2);
    table.add_row({values.task, values.metric, std::to_string(needs->pairs),
                   std::to_string(needs->clusters), format_significant(needs->detectable_effect, 4),
                   count_text(needs->clusters_paired), count_text(needs->clusters_unpaired),
                   format_significant(ratio, 3)});
    rows.push_back({{"task", values.task},
                    {"metric", values.metric},
                    {"unit", values.unit},
                    {"pairs", needs->pairs},
                    {"clusters", needs->clusters},
                    {"se_paired", json_number(needs->se_paired)},
                    {"se_unpaired", json_number(needs->se_unpaired)},
                    {"detectable_effect", json_number(needs->detectable_effect)},
                    {"clusters_needed", count_json(needs->clusters_paired)},
                    {"clusters_needed_unpaired", count_json(needs->clusters_unpaired)},
                    {"samples_unpaired_per_paired", json_number(ratio)}});
  }
  if (rows.empty()) {
    throw DataError(options.database + ": " + a.label + " and " + b.label +
                    " have no metric whose pairs differ in two clusters");
  }
  if (options.json) {
    print_json_line(std::cout,
                    {{"a", a.label},
                     {"b", b.label},
                     {"alpha", options.alpha},
                     {"power", options.power},
                     {"margin", options.margin ? json_number(*options.margin) : Json(nullptr)},
                     {"metrics", rows}});
  } else {
    std::cout << "A: " << a.label << ", B: " << b.label << "; one-sided at "
              << format_significant(options.alpha, 3) << ", found "
              << format_percent(options.power, 0) << " of the time"
              << (options.margin ? ", a loss of " + format_significant(*options.margin, 4) : "")
              << ".\n\n"
              << table.text();
  }
  return ExitCode::kOk;
}

}  // namespace

void add_power_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<PowerOptions>();
  CLI::App* command = app.add_subcommand(
      "power", "How many samples does a decision between two arms need? From recorded variance");
  command->add_option("A", options->a, "Arm: POLICY@BUDGET, row id or key")->required();
  command->add_option("B", options->b, "Arm")->required();
  command->add_option("--db", options->database, "Database of sweeps (default kvscope.db)");
  command
      ->add_option("--metrics", options->metrics,
                   "Only these, separated by commas (default: all that measure quality)")
      ->delimiter(',');
  command->add_option("--margin", options->margin, "Loss that must be found, in the metric's unit");
  command->add_option("--alpha", options->alpha, "Level, one-sided (default 0.05)");
  command->add_option("--power", options->power, "How often it must be found (default 0.8)");
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Example:\n  kvscope power full h2o@0.200 --db demo.db --metrics nll_nats --margin 0.02");
  set_action(*command, context, [options] { return run_power(*options); });
}

}  // namespace kvscope
