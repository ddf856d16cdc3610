// What `sweep` and `run` have in common: everything but the names of their options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/commands/common.h"
#include "harness/plan/arms.h"
#include "harness/tasks/task.h"

namespace kvscope {

// What stands for --policies, --budgets and --tasks, and for a suite's keys, where they are left
// out.
inline constexpr const char* kDefaultPolicies = "streaming_llm,h2o,tova,snapkv,random";
inline constexpr const char* kDefaultBudgets = "0.1,0.2,0.5";
inline constexpr const char* kDefaultTasks = "needle,qa,perplexity";

struct SweepOptions {
  ModelOptions model;
  std::string suite;  // a file that describes arms and tasks instead of `arms` and `tasks`
  ArmTexts arms;
  std::string tasks = kDefaultTasks;
  std::string database = "kvscope.db";
  TaskFiles files;
  std::string probe;  // empty: the suite's, or kDefaultProbeLevel
  std::string ghosts = "f32";
  int ghost_cap = 0;
  std::vector<std::string> trace;  // sample keys, or "all"
  int events = TraceChoice::kMostEvents;
  bool fresh = false;   // --new
  bool floors = false;  // the questions without their texts too, and how the full cache fares
  int prefix_cache_mib = 512;
  std::string metrics_listen;
  std::string metrics_textfile;
  bool json = false;
};

// --text, --haystack, --qa, --context.
void add_task_file_options(CLI::App& command, TaskFiles& files);
// A book of scripts/prepare-texts, if it ever ran, where no text is named.
TaskFiles with_prepared_text(TaskFiles files);

// What commands that run arms have in common but for what they run: model, database, what to
// watch, metrics, JSON.
void add_run_options(CLI::App& command, SweepOptions& options);

// Options that sweep and run have.
void add_sweep_options(CLI::App& command, SweepOptions& options);

// True if --suite was given. UsageError if another option then says what the suite says.
bool takes_suite(const CLI::App& command);

// A book that scripts/prepare-texts made; empty if it never ran.
std::filesystem::path prepared_text();

// Resumes the newest unfinished sweep with the same plan and program, or starts one; prints the
// table.
ExitCode run_sweep(const SweepOptions& options, const CudaSupport& cuda);

}  // namespace kvscope
