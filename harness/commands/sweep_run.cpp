#include "harness/commands/sweep_run.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/build_info/build_info.h"
#include "harness/commands/ledger_report.h"
#include "harness/export/live_metrics.h"
#include "harness/plan/plan_hash.h"
#include "harness/plan/process_peak.h"
#include "harness/plan/stop_signals.h"
#include "harness/plan/suite.h"
#include "harness/plan/walk.h"
#include "harness/report/probe_plan.h"
#include "harness/report/progress.h"
#include "harness/report/sweep_summary.h"
#include "harness/store/memory_kinds.h"
#include "harness/store/uuid.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

std::vector<PlannedTask> plan_tasks(const SweepOptions& options, std::vector<TaskSpec> specs,
                                    const Tokenizer& tokenizer) {
  const TaskFiles files = with_prepared_text(options.files);
  std::vector<PlannedTask> tasks;
  for (TaskSpec& spec : specs) {
    const TaskInfo* info = find_task(spec.name);
    auto task = info->make(spec, files, tokenizer);
    // Tables and metrics name results by data set: two of one name would be read as one.
    for (const PlannedTask& other : tasks) {
      if (other.task->dataset().name == task->dataset().name) {
        throw UsageError(
            "--tasks: " + spec.name +
            " twice; put lengths into one list (length=512:length=1024) or make two sweeps");
      }
    }
    for (const std::string& note : task->dataset().notes) {
      std::fprintf(stderr, "note: %s\n", note.c_str());
    }
    tasks.push_back({std::move(spec), info, std::move(task)});
  }
  if (!options.floors) return tasks;
  for (std::size_t i = 0, n = tasks.size(); i < n; ++i) {
    if (auto questions = tasks[i].task->without_context(tokenizer)) {
      tasks.push_back({tasks[i].spec, tasks[i].info, std::move(questions)});
    }
  }
  return tasks;
}

ModelRecord model_record(const Model& model) {
  const ModelConfig& c = model.config;
  return {model.key(),
          c.name,
          model.weights_sha256,
          std::string(name_of(model.dtype)),
          std::string(name_of(model.kv_dtype)),
          c.n_layers,
          c.n_heads,
          c.n_kv_heads,
          c.head_dim,
          c.context_length,
          model.backend};
}

std::string program_version() {
  const BuildInfo& info = build_info();
  return std::string(info.version) + "+" + std::string(info.git_sha) +
         (info.git_dirty ? ".changed" : "");
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// The command as it was typed; Linux keeps it.
std::string argv_json() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  nlohmann::json list = nlohmann::json::array();
  for (std::string word; std::getline(in, word, '\0');) list.push_back(word);
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string options_json(const SweepOptions& o, const Model& model,
                         const std::vector<PlannedTask>& tasks) {
  const auto plan = plan_of(parse_probes(o.probe, o.ghosts, o.ghost_cap), model.config.n_layers, 0);
  nlohmann::ordered_json json = {
      {"suite", o.suite},
      {"policies", o.arms.policies},
      {"policy_plugins", o.arms.plugins},
      {"budgets", o.arms.budgets},
      {"budget_tokens", o.arms.budget_tokens},
      {"question", o.arms.question},
      {"probe", o.probe},
      {"probe_plan", plan ? probe_plan_json(*plan) : Json(nullptr)},
      {"backend", model.backend},
      {"dtype", o.model.dtype},
      {"kv_dtype", o.model.kv_dtype.empty() ? o.model.dtype : o.model.kv_dtype},
      {"beyond_context", o.model.beyond_context},
      {"text", o.files.text.string()},
      {"haystack", o.files.haystack.string()},
      {"qa", o.files.qa.string()},
      {"corpus", o.files.corpus},
      {"prompts", o.files.prompts.string()},
      {"qa_prompts", o.files.qa_prompts.string()},
      {"qa_lengths", o.files.qa_lengths.string()},
      {"context", o.files.context}};
  if (!o.model.chat_template.empty()) json["chat_template"] = o.model.chat_template;
  for (const PlannedTask& task : tasks) {
    json["tasks"].push_back({{"name", task.spec.name}, {"keys", task.spec.values}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// UsageError for a sample that no task has: a trace that is asked for is not left out in silence.
TraceChoice trace_choice(const SweepOptions& options, ProbeLevel probes,
                         const std::vector<PlannedTask>& tasks) {
  TraceChoice choice{false, options.trace, options.events};
  if (options.trace.empty()) return choice;
  if (probes == ProbeLevel::kOff) throw UsageError("--trace needs probes: leave --probe off out");
  if (options.trace == std::vector<std::string>{"all"}) {
    choice.all = true;
    return choice;
  }
  for (const std::string& key : options.trace) {
    const bool is_there = std::ranges::any_of(tasks, [&](const PlannedTask& task) {
      const auto samples = sample_records(task.task->dataset());
      return std::ranges::find(samples, key, &SampleRecord::sample_key) != samples.end();
    });
    if (!is_there)
      throw UsageError("--trace: no task has a sample '" + key + "'; write its whole key, or all");
  }
  return choice;
}

// The sweep's rows in the store.
struct StoredSweep {
  std::string uuid;
  std::vector<std::int64_t> arm_ids;
  bool resumed = false;
  bool finished = false;  // nothing is left to do
};

StoredSweep open_sweep(Store& store, const SweepOptions& options, const Model& model,
                       std::span<const ArmPlan> arms, const std::vector<PlannedTask>& tasks) {
  const std::string model_key = model.key();
  PlanIdentity identity{model_key,
                        {},
                        {},
                        key_of(parse_probes(options.probe, options.ghosts, options.ghost_cap)),
                        options.model.beyond_context};
  std::vector<ArmRecord> records;
  for (const ArmPlan& arm : arms) {
    records.push_back(arm_record(arm, model_key, model.dtype, model.kv_dtype));
    identity.arm_keys.push_back(records.back().key);
  }
  for (const PlannedTask& task : tasks) {
    identity.dataset_keys.push_back(task.spec.name + ":" + task.task->dataset().key());
  }
  const std::string hash = plan_hash(identity);

  StoredSweep sweep;
  if (const auto found = store.find_sweep(hash, program_version()); found && !options.fresh) {
    sweep.uuid = found->uuid;
    sweep.resumed = true;
    sweep.finished = found->finished;
  } else {
    sweep.uuid = new_uuid();
    store.begin_sweep({sweep.uuid, hash, program_version(), options_json(options, model, tasks)});
  }
  store.put_model(model_record(model));
  for (const PlannedTask& task : tasks) {
    const Dataset& dataset = task.task->dataset();
    store.add_sweep_dataset(sweep.uuid, store.put_dataset(dataset_record(dataset, task.spec.name),
                                                          sample_records(dataset)));
  }
  for (const ArmRecord& record : records)
    sweep.arm_ids.push_back(store.put_arm(sweep.uuid, record));
  return sweep;
}

void export_results(LiveMetrics& live, Store& store, const StoredSweep& sweep,
                    std::span<const ArmPlan> arms, const std::string& model_name) {
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const auto metrics = arm_metrics(store, sweep.arm_ids[a]);
    const ArmLabels labels = metric_labels(model_name, arms[a]);
    for (std::size_t first = 0; first < metrics.size();) {
      std::size_t last = first;
      while (last < metrics.size() && metrics[last].dataset_key == metrics[first].dataset_key)
        ++last;
      live.arm_result(labels, metrics[first].dataset,
                      std::span(metrics).subspan(first, last - first));
      first = last;
    }
  }
}

void print_results(Store& store, const StoredSweep& sweep, const SweepOptions& options,
                   std::string_view status) {
  const std::vector<SweepTask> tasks = summarise_sweep(store, sweep.uuid);
  if (options.json) {
    Json out = {{"sweep", sweep.uuid},
                {"status", status},
                {"database", fs::absolute(store.path()).string()},
                {"probe_plan", stored_probe_plan(store, sweep.uuid)},
                {"tasks", sweep_json(tasks)}};
    for (const RunRow& run : list_runs(store)) {  // newest first
      if (run.sweep_uuid != sweep.uuid || !run.device_memory) continue;
      out["device_memory"] = device_memory_json(run.device_memory);
      break;
    }
    print_json_line(std::cout, out);
    return;
  }
  if (options.floors) {
    std::cout << floors_table(tasks) << "\nDatabase: " << fs::absolute(store.path()).string()
              << '\n';
    return;
  }
  for (const SweepTask& task : tasks) std::cout << sweep_table(task) << '\n';
  std::cout << sweep_sentences(tasks) << "\n\nDatabase: " << fs::absolute(store.path()).string()
            << '\n';
}

// Ends the run's row whatever happens; a store that just failed may fail again here.
void end_run_quietly(Store& store, std::int64_t run_id, RunStatus status) noexcept {
  try {
    store.end_run(run_id, status);
  } catch (const std::exception&) {
  }
}

ExitCode stopped_before_the_run(const StopSignals& signals) {
  std::fprintf(stderr, "Stopped before the first sample; the same command starts again.\n");
  return signals.exit_code().value_or(ExitCode::kTryAgain);
}

}  // namespace

fs::path prepared_text() {
  const fs::path file = default_model_file().parent_path() / "texts" / "sherlock_holmes.txt";
  std::error_code failed;
  return fs::exists(file, failed) ? file : fs::path();
}

TaskFiles with_prepared_text(TaskFiles files) {
  if (files.text.empty()) files.text = prepared_text();
  return files;
}

void add_task_file_options(CLI::App& command, TaskFiles& files) {
  command.add_option(
      "--text", files.text,
      "Text for perplexity, or a folder of .txt (default: a book of scripts/prepare-texts)");
  command.add_option("--corpus", files.corpus,
                     "Text of an installed Debian package instead: sherlock, opticks or policy");
  command.add_option("--haystack", files.haystack,
                     "Text file or folder of .txt to hide needles in (default: noise)");
  command.add_option("--qa,--data", files.qa,
                     "Questions for qa, a file or folder of any format that `kvscope list formats` "
                     "names (default: generated)");
  command.add_option(
      "--qa-prompts", files.qa_prompts,
      "Prompts instead of the format's: a text with {context}, {input} and {options}, or "
      "a JSON object of such texts by task (dataset2prompt.json)");
  command.add_option("--qa-lengths", files.qa_lengths,
                     "Tokens of an answer by task, a JSON object (dataset2maxlen.json)");
  command.add_flag("--skip-bad-records", files.skip_bad_records,
                   "Go on without records of --qa that cannot be used; says how many");
  command.add_option("--context", files.context, "Tokens of a perplexity window")
      ->capture_default_str()
      ->check(CLI::Range(4, 1'000'000));
}

void add_run_options(CLI::App& command, SweepOptions& options) {
  add_model_options(command, options.model);
  command.add_option("--db", options.database, "Database file; made if it is not there")
      ->capture_default_str();
  command
      .add_option("--question", options.arms.question,
                  "May policies see the question when they select: visible, hidden or both "
                  "(hidden: they select at the document's end, the question is fed afterwards)")
      ->capture_default_str();
  command.add_option(
      "--probe", options.probe,
      "What to watch inside attention: off, basic (what it gives away by itself), full "
      "(and evicted tokens, in a sample of layers and steps) or all (in every one); "
      "full unless the suite says otherwise");
  add_ghost_options(command, options.ghosts, options.ghost_cap);
  command
      .add_option(
          "--trace", options.trace,
          "Samples whose single rebound events are kept, by key and separated by commas, or "
          "all (show --events, why)")
      ->delimiter(',');
  command.add_option("--events", options.events, "Of each traced result, the heaviest events kept")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--prefix-cache-mib", options.prefix_cache_mib,
                  "Memory for prompts' common beginnings, which are computed once; 0: off. The "
                  "results are the same")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command.add_flag("--new", options.fresh, "Start afresh, also if this plan is in the database");
  command.add_option("--metrics-listen", options.metrics_listen,
                     "Serve Prometheus metrics on [HOST:]PORT while running");
  command.add_option("--metrics-textfile", options.metrics_textfile,
                     "Write Prometheus metrics to this file at the end");
  command.add_flag("--json", options.json, "Print JSON instead of tables");
}

void add_sweep_options(CLI::App& command, SweepOptions& options) {
  command.add_option("--suite", options.suite,
                     "JSON file with policies, budgets, question and tasks, instead of the options "
                     "of these names (docs/examples/suite.json)");
  add_task_file_options(command, options.files);
  add_run_options(command, options);
}

bool takes_suite(const CLI::App& command) {
  if (command.get_option("--suite")->empty()) return false;
  for (const char* name : {"--policies", "--policy", "--budgets", "--budget", "--budget-tokens",
                           "--question", "--tasks"}) {
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option != nullptr && !option->empty()) {
      throw UsageError(std::string(name) +
                       " and --suite: the suite says it; leave one of them out");
    }
  }
  return true;
}

ExitCode run_sweep(const SweepOptions& asked, const CudaSupport& cuda) {
  const StopSignals signals;  // first: loading takes long enough to be interrupted
  SweepOptions options = asked;
  const Suite suite =
      options.suite.empty()
          ? Suite{expand_arms(options.arms), options.tasks, {}}
          : read_suite(options.suite, {kDefaultPolicies, kDefaultBudgets, kDefaultTasks,
                                       catalog_with_plugins(options.arms.plugins)});
  const std::vector<ArmPlan>& arms = suite.arms;
  std::vector<TaskSpec> specs = parse_tasks(suite.tasks);
  if (!suite.probe.empty() && !options.probe.empty())
    throw UsageError(
        "--probe and a suite with \"probe\": the suite says it; leave one of them out");
  if (options.probe.empty()) options.probe = suite.probe.empty() ? kDefaultProbeLevel : suite.probe;
  const ProbeOptions probes = parse_probes(options.probe, options.ghosts, options.ghost_cap);
  const std::string listen =
      options.metrics_listen.empty() ? "" : parse_listen_address(options.metrics_listen);
  Store::check(options.database);

  const OpenedModel opened = open_model(options.model, cuda);
  if (signals.requested()) return stopped_before_the_run(signals);
  const Model& model = *opened.model;
  opened.engine->use_prefix_cache(std::int64_t{options.prefix_cache_mib} << 20);
  const std::vector<PlannedTask> tasks = plan_tasks(options, std::move(specs), *opened.tokenizer);
  const TraceChoice trace = trace_choice(options, probes.level, tasks);
  Store store = Store::open(options.database, StoreAccess::kCreate);
  const StoredSweep sweep = open_sweep(store, options, model, arms, tasks);
  if (sweep.resumed && !options.trace.empty())
    std::fprintf(stderr, "note: results that are there already are not traced; --new is\n");
  if (sweep.finished) {
    std::fprintf(stderr, "This plan is finished in %s (sweep %s); --new runs it again.\n",
                 options.database.c_str(), sweep.uuid.c_str());
    print_results(store, sweep, options, "finished");
    return ExitCode::kOk;
  }

  if (signals.requested()) return stopped_before_the_run(signals);
  const auto started = std::chrono::steady_clock::now();
  reset_peak_process_bytes();  // of this run, where several follow in one process
  const RunRecord record{new_uuid(),
                         sweep.uuid,
                         program_version(),
                         std::string(build_info().git_sha),
                         build_info().git_dirty,
                         host_name(),
                         opened.backend->description(),
                         argv_json()};
  const std::int64_t run_id = store.begin_run(record);
  RunLabels labels{record.uuid, sweep.uuid, "sweep",
                   model.config.n_layers * model.config.n_kv_heads};
  if (opened.device) labels.gpu_name = opened.device->name;
  if (cuda.is_built) labels.cuda_version = cuda.description;
  LiveMetrics live(labels);
  if (!listen.empty()) {
    if (const auto address = live.listen(listen)) {
      std::fprintf(stderr, "Metrics: http://%s/metrics\n", address->c_str());
    }
  }
  const TaskRun run{*opened.engine,
                    *opened.tokenizer,
                    arms,
                    probes,
                    options.model.beyond_context,
                    [&signals] { return signals.requested(); },
                    trace};
  const Walk plan{store,
                  run_id,
                  sweep.arm_ids,
                  run,
                  live,
                  model.config.name,
                  opened.device ? opened.device->total_bytes : 0};
  const auto finish_metrics = [&](bool success) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
    live.run_done(elapsed.count(), success);
    if (!options.metrics_textfile.empty()) live.write_textfile(options.metrics_textfile);
  };

  bool complete = false;
  try {
    const WalkSize size = walk_size(store, sweep.arm_ids, tasks);
    if (sweep.resumed) {
      std::fprintf(stderr, "Going on with sweep %s: %lld of %lld results are there.\n",
                   sweep.uuid.c_str(), static_cast<long long>(size.finished),
                   static_cast<long long>(size.planned));
    }
    Progress progress("sweep", size.planned, "results", Progress::standard_error(), size.finished);
    complete = walk(plan, tasks, progress);
  } catch (...) {
    end_run_quietly(store, run_id, RunStatus::kFailed);
    finish_metrics(false);
    throw;
  }
  const std::optional<DeviceMemory> memory = opened.backend->device_memory();
  if (memory) store.put_device_memory(run_id, *memory);
  put_process_memory(store, run_id, {peak_process_bytes(), opened.engine->page_pool_peak_bytes()});
  store.end_run(run_id, complete ? RunStatus::kFinished : RunStatus::kInterrupted);
  store.checkpoint();
  export_results(live, store, sweep, arms, model.config.name);
  finish_metrics(complete);
  if (!complete) {
    std::fprintf(stderr,
                 "Stopped; what is finished is in %s. The same command goes on from there.\n",
                 options.database.c_str());
    return signals.exit_code().value_or(ExitCode::kTryAgain);
  }
  if (const PrefixCacheCounters prefix = opened.engine->prefix_counters(); prefix.hit_tokens > 0) {
    std::fprintf(
        stderr, "Prefix cache: %lld of %lld prompt tokens (%.0f %%) were not computed again.\n",
        static_cast<long long>(prefix.hit_tokens), static_cast<long long>(prefix.prompt_tokens),
        100.0 * static_cast<double>(prefix.hit_tokens) / static_cast<double>(prefix.prompt_tokens));
  }
  if (memory) {
    std::fprintf(stderr, "Device memory: %s at most, %s by the driver.\n",
                 format_bytes(memory->peak_bytes).c_str(),
                 format_bytes(memory->driver_delta_bytes).c_str());
  }
  print_results(store, sweep, options, "finished");
  const auto ran = [&](std::int64_t arm) { return find_arm(store, std::to_string(arm)).n_ok > 0; };
  return std::ranges::any_of(sweep.arm_ids, ran) ? ExitCode::kOk : ExitCode::kNotEvaluable;
}

}  // namespace kvscope
