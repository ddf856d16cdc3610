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
  bool fresh = false;  // --new
  int prefix_cache_mib = 512;
  std::string metrics_listen;
  std::string metrics_textfile;
  bool json = false;
};

// Options that both commands have.
void add_sweep_options(CLI::App& command, SweepOptions& options);

// True if --suite was given. UsageError if another option then says what the suite says.
bool takes_suite(const CLI::App& command);

// A book that scripts/prepare-texts made; empty if it never ran.
std::filesystem::path prepared_text();

// Resumes the newest unfinished sweep with the same plan and program, or starts one; prints the
// table.
ExitCode run_sweep(const SweepOptions& options, const CudaSupport& cuda);

}  // namespace kvscope
