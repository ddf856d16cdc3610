// kvscope bench probes: what each level of watching adds to a sweep, and that it changes nothing.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>

#include "harness/commands/bench.h"
#include "harness/commands/bench_common.h"
#include "harness/commands/sweep_run.h"
#include "harness/plan/arms.h"
#include "harness/report/table.h"
#include "harness/tasks/task.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr ProbeLevel kLevels[] = {ProbeLevel::kOff, ProbeLevel::kBasic, ProbeLevel::kFull,
                                  ProbeLevel::kAll};

struct ProbesBenchOptions : BenchOptions {
  ArmTexts arms = {"streaming_llm:positions=absolute,h2o,tova,snapkv", "0.1,0.5", ""};
  std::string tasks = "needle:length=1024:samples=2,perplexity:windows=1";
  TaskFiles files;
};

double user_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec) + 1e-6 * double(usage.ru_utime.tv_usec);
}

struct BenchTask {
  std::string name;
  std::unique_ptr<Task> task;
};

// One level's passes over all tasks.
struct Level {
  ProbeLevel level = ProbeLevel::kOff;
  Samples user_seconds;
  std::vector<std::string> results;   // what must not depend on the level, one a task
  std::map<std::string, int> probed;  // metrics of probes, with the samples that have them
};

// What an arm did on a sample, bit for bit; what the probes themselves measured and hold is left
// out.
void write_result(std::ostream& out, const SampleOutcome& o) {
  out << std::hexfloat << name_of(o.status) << ' ' << o.mode_run;
  for (const std::int32_t id : o.output_ids) out << ' ' << id;
  for (const float nll : o.trace_nll_nats) out << ' ' << nll;
  for (const float kl : o.trace_kl_nats) out << ' ' << kl;
  for (const char* metric : {"nll_nats", "gold_nll_nats", "kl_full_nats", "top1_agreement",
                             "kv_peak_bytes", "kv_steady_bytes", "resident_tokens"})
    out << ' ' << o.metric(metric).value_or(-1);
  out << ' ' << (o.kept_sets ? o.kept_sets->kept_sets_hash : "") << ' ' << o.ledger.evicted_tokens
      << '\n';
}

// Seconds of all tasks at one level.
double run_level(Level& level, const OpenedModel& opened, std::span<const ArmPlan> arms,
                 std::span<const BenchTask> tasks) {
  const TaskRun run{*opened.engine, *opened.tokenizer, arms, {level.level}, false, {}};
  level.results.clear();
  level.probed.clear();
  const double user = user_seconds();
  std::vector<std::ostringstream> results(tasks.size());
  const double seconds = seconds_of([&] {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const Dataset& dataset = tasks[t].task->dataset();
      std::vector<SampleWork> work(dataset.samples.size() + dataset.windows.size());
      for (std::size_t i = 0; i < work.size(); ++i) {
        work[i].sample = i;
        work[i].arms.resize(arms.size());
        std::iota(work[i].arms.begin(), work[i].arms.end(), std::size_t{0});
      }
      const std::size_t batch = tasks[t].task->batch_size(arms.size());
      for (std::size_t first = 0; first < work.size(); first += batch) {
        const auto some = std::span(work).subspan(first, std::min(batch, work.size() - first));
        const auto outcomes = tasks[t].task->run(run, some);
        for (const auto& of_sample : *outcomes) {
          for (const SampleOutcome& outcome : of_sample) {
            if (outcome.status == OutcomeStatus::kError)
              throw DataError("bench probes: " + outcome.error);
            write_result(results[t], outcome);
            if (!outcome.probes) continue;
            for (const NamedProbe& probe : named_probes(*outcome.probes))
              level.probed[probe.metric] += probe.values.overall.n > 0 ? 1 : 0;
          }
        }
      }
    }
  });
  level.user_seconds.values.push_back(user_seconds() - user);
  for (const std::ostringstream& result : results) level.results.push_back(result.str());
  return seconds;
}

// Of each round: the level's time over that of `off` in the same round, less one.
Samples overhead(const Samples& level, const Samples& off) {
  Samples shares;
  for (std::size_t i = 0; i < level.values.size(); ++i)
    shares.values.push_back(level.values[i] / off.values[i] - 1);
  return shares;
}

std::string percent_text(const Samples& shares) {
  return format_percent(shares.median(), 1) + " [" + format_percent(shares.min(), 1) + " – " +
         format_percent(shares.max(), 1) + "]";
}

std::vector<BenchTask> make_tasks(const ProbesBenchOptions& options, const Tokenizer& tokenizer) {
  TaskFiles files = options.files;
  if (files.text.empty()) files.text = prepared_text();
  std::vector<BenchTask> tasks;
  for (const TaskSpec& spec : parse_tasks(options.tasks))
    tasks.push_back({spec.name, find_task(spec.name)->make(spec, files, tokenizer)});
  return tasks;
}

ExitCode bench_probes(const ProbesBenchOptions& options, const CudaSupport& cuda) {
  const std::vector<ArmPlan> arms = expand_arms(options.arms);
  const OpenedModel opened = open_model(options.model, cuda);
  const std::vector<BenchTask> tasks = make_tasks(options, *opened.tokenizer);
  std::vector<Level> levels;
  for (const ProbeLevel level : kLevels) levels.push_back({level, {}, {}, {}});
  std::vector<std::function<double()>> measurements;
  for (Level& level : levels)
    measurements.emplace_back([&] { return run_level(level, opened, arms, tasks); });
  const std::vector<Samples> seconds = measure_in_turn(options.repetitions, measurements);

  bool is_identical = true;
  Json rows = Json::array();
  Table table({"level", "looks at", "seconds", "over off", "user CPU over off", "results"});
  table.align(1, Table::Align::kLeft);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    Level& level = levels[i];
    // The first was to warm up.
    if (level.user_seconds.values.size() > seconds[i].values.size())
      level.user_seconds.values.erase(level.user_seconds.values.begin());
    const bool is_same = level.results == levels[0].results;
    is_identical = is_identical && is_same;
    const Samples wall = overhead(seconds[i], seconds[0]);
    const Samples user = overhead(level.user_seconds, levels[0].user_seconds);
    const auto plan = plan_of({level.level}, opened.model->config.n_layers, 0);
    const std::string name(name_of(level.level));
    table.add_row({name, plan ? plan->text() : "nothing", samples_text(seconds[i], 2),
                   i == 0 ? "-" : percent_text(wall), i == 0 ? "-" : percent_text(user),
                   is_same ? "same bits" : "OTHER BITS"});
    rows.push_back({{"level", name},
                    {"looks_at", plan ? Json(plan->text()) : Json(nullptr)},
                    {"seconds", samples_json(seconds[i])},
                    {"user_seconds", samples_json(level.user_seconds)},
                    {"overhead", samples_json(wall)},
                    {"user_overhead", samples_json(user)},
                    {"metrics", level.probed},
                    {"results_are_the_same", is_same}});
  }
  if (options.json) {
    Json out = bench_json("probes", opened, options);
    out["arms"] = arms.size();
    out["tasks"] = options.tasks;
    out["levels"] = std::move(rows);
    out["results_are_the_same"] = is_identical;
    print_json_line(std::cout, out);
  } else {
    std::cout << bench_line(opened, options) << arms.size() << " arms, " << options.tasks << '\n'
              << table.text();
  }
  if (!is_identical)
    throw std::runtime_error("bench probes: a level of probes changed what it watched");
  return ExitCode::kOk;
}

}  // namespace

void add_bench_probes(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<ProbesBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "probes", "What watching costs at each level of --probe, and that it changes no result");
  add_bench_options(*command, *options);
  add_plugin_option(*command, options->arms.plugins);
  command->add_option("--policies", options->arms.policies, "Policies beside full")
      ->capture_default_str();
  command->add_option("--budgets", options->arms.budgets, "Their budgets")->capture_default_str();
  command->add_option("--tasks", options->tasks, "Tasks, as in sweep")->capture_default_str();
  command->add_option("--text", options->files.text,
                      "Text for perplexity (default: a book of scripts/prepare-texts)");
  command->add_option("--context", options->files.context, "Tokens of a perplexity window")
      ->capture_default_str()
      ->check(CLI::Range(4, 1'000'000));
  command->footer(
      "Examples:\n"
      "  kvscope bench probes --text book.txt --repetitions 5\n"
      "  kvscope bench probes --tasks needle:length=2048:samples=4 --policies h2o --json");
  set_action(*command, context,
             [options, &context] { return bench_probes(*options, context.cuda); });
}

}  // namespace kvscope
