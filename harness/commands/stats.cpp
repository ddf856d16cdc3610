#include "harness/commands/stats.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <optional>

#include "harness/commands/input.h"
#include "harness/commands/pairs_csv.h"
#include "harness/report/json.h"
#include "harness/report/paired_json.h"
#include "harness/report/table.h"
#include "metrics/stats/pairs_report.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct StatsOptions {
  std::string file;
  std::optional<double> margin;
  bool json = false;
};

std::string value_text(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_number_float()) return format_significant(value.get<double>(), 6);
  return value.dump();
}

void print_table(const Json& summary) {
  Table table({"figure", "value"});
  for (const auto& [key, value] : summary.items()) {
    if (value.is_object()) {
      for (const auto& [inner, number] : value.items()) {
        table.add_row({key + "." + inner, value_text(number)});
      }
    } else if (value.is_array()) {
      table.add_row({key, value_text(value[0]) + " … " + value_text(value[1])});
    } else {
      table.add_row({key, value_text(value)});
    }
  }
  std::cout << table.text();
}

ExitCode run_stats(const StatsOptions& options) {
  if (options.margin && !(std::isfinite(*options.margin) && *options.margin >= 0)) {
    throw UsageError(
        "--margin: the largest loss that still counts as none is a number of at least 0");
  }
  const auto pairs = parse_pairs_csv(read_exact_text(options.file), options.file);
  const Json summary = paired_summary_json(summarise_pairs(pairs, options.margin));
  if (options.json) {
    print_json_line(std::cout, summary);
  } else {
    print_table(summary);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_stats_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<StatsOptions>();
  CLI::App* command = app.add_subcommand("stats", "Paired, clustered statistics of a CSV file");
  command->add_option("PAIRS.csv", options->file, "Columns cluster, a, b; the difference is b - a")
      ->required();
  command->add_option("--margin", options->margin,
                      "Largest loss that counts as none (non-inferiority)");
  command->add_flag("--json", options->json, "One JSON object");
  command->footer("Example:\n  kvscope stats pairs.csv --margin 0.05 --json");
  set_action(*command, context, [options] { return run_stats(*options); });
}

}  // namespace kvscope
