// kvscope bench store: how long the heaviest of many rebound events take to be found.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "harness/commands/bench.h"
#include "harness/commands/bench_common.h"
#include "harness/report/table.h"
#include "harness/store/database.h"
#include "harness/store/event_queries.h"
#include "harness/store/statement.h"
#include "harness/store/transaction.h"
#include "harness/tasks/task.h"
#include "runner/base/error.h"
#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

struct StoreBench {
  std::string database;
  std::int64_t events = 10'000'000;
  int per_result = TraceChoice::kMostEvents;
  int samples = 1000;
  int most = 100;
  bool json = false;
};

// Results of as many arms as the events need, with masses drawn at random.
void fill(Store& store, const StoreBench& bench) {
  const std::int64_t n_results = (bench.events + bench.per_result - 1) / bench.per_result;
  const std::int64_t n_arms = (n_results + bench.samples - 1) / bench.samples;
  ModelRecord model{
      .key = "m", .name = "made up", .weights_sha256 = "w", .dtype = "f32", .kv_dtype = "f32"};
  store.put_model(model);
  std::vector<SampleRecord> samples;
  for (int i = 0; i < bench.samples; ++i) {
    const std::string key = "sample=" + std::to_string(i);
    samples.push_back({key, key, key, 1, {}});
  }
  const std::int64_t dataset =
      store.put_dataset({"d", "needle", "needle", "1", bench.samples}, samples);
  store.begin_sweep({"sweep", "plan", "bench", "{}"});
  const std::int64_t run = store.begin_run({.uuid = "run",
                                            .sweep_uuid = "sweep",
                                            .program_version = "bench",
                                            .git_sha = "-",
                                            .host = "-",
                                            .backend = "-",
                                            .argv_json = "[]"});
  std::uint64_t draw = 1;
  std::int64_t left = bench.events;
  for (std::int64_t a = 0; a < n_arms && left > 0; ++a) {
    ArmRecord arm;
    arm.key = "arm=" + std::to_string(a);
    arm.model_key = "m";
    arm.policy = {.canonical = "h2o", .name = "h2o", .params = {}};
    arm.budget_tokens = int(a) + 1;
    arm.prefill_mode = "monolithic";
    arm.position_mode = "absolute";
    arm.question_visibility = "visible";
    arm.dtype = arm.kv_dtype = "f32";
    const std::int64_t arm_id = store.put_arm("sweep", arm);
    for (int s = 0; s < bench.samples && left > 0; ++s) {
      SampleOutcome outcome;
      outcome.mode_run = "monolithic";
      const auto n = std::min<std::int64_t>(left, bench.per_result);
      for (std::int64_t i = 0; i < n; ++i) {
        draw = smix(draw);
        const auto mass = float(draw >> 40U) / float(1 << 24);
        const auto at = int(draw & 0x3ffU);
        outcome.events.push_back(
            {{at % 30, at % 3, at, 1024, 1024 + at % 32, at % 32, mass, 1 + at % 64, true},
             "token",
             0.5});
      }
      left -= n;
      store.record(run, arm_id, store.sample_id(dataset, samples[std::size_t(s)].sample_key),
                   outcome);
    }
  }
}

ExitCode bench_store(const StoreBench& bench) {
  namespace fs = std::filesystem;
  if (fs::exists(bench.database))
    throw UsageError("bench store: " + bench.database +
                     " is there already; name a new file by --db");
  Store store = Store::open(bench.database, StoreAccess::kCreate);
  const double fill_seconds = seconds_of([&] { fill(store, bench); });
  store.checkpoint();
  std::size_t found = 0;
  const double all = seconds_of([&] { found = heaviest_events(store, bench.most).size(); });
  const double arm =
      seconds_of([&] { found += heaviest_events_of_arm(store, 1, bench.most).size(); });
  const double sample = seconds_of(
      [&] { found += heaviest_events_of_sample(store, 1, "sample=7", bench.most).size(); });
  const auto bytes = std::int64_t(fs::file_size(bench.database));
  if (bench.json) {
    print_json_line(std::cout, {{"events", bench.events},
                                {"file_bytes", bytes},
                                {"fill_seconds", fill_seconds},
                                {"most", bench.most},
                                {"found", found},
                                {"heaviest_of_all_seconds", all},
                                {"heaviest_of_arm_seconds", arm},
                                {"heaviest_of_sample_seconds", sample}});
    return ExitCode::kOk;
  }
  Table table({"of " + std::to_string(bench.events) + " events", "seconds"});
  table.add_row({"written", format_fixed(fill_seconds, 1)});
  table.add_row({"heaviest of all", format_fixed(all, 4)});
  table.add_row({"heaviest of an arm", format_fixed(arm, 4)});
  table.add_row({"heaviest of a sample", format_fixed(sample, 4)});
  std::cout << table.text() << "file: " << format_bytes(bytes) << '\n';
  return ExitCode::kOk;
}

}  // namespace

void add_bench_store(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<StoreBench>();
  CLI::App* command =
      bench.add_subcommand("store", "Finding the heaviest of many rebound events in a database");
  command->add_option("--db", options->database, "A new file; it stays")->required();
  command->add_option("--count", options->events, "Events to write")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--most", options->most, "Events to find")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--json", options->json, "One JSON object");
  command->footer("Example:\n  kvscope bench store --db events.db --count 10000000");
  set_action(*command, context, [options] { return bench_store(*options); });
}

}  // namespace kvscope
