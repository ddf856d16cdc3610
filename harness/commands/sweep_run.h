// What `sweep` and `run` have in common: everything but the names of their options.
#pragma once

#include <string>
#include <vector>

#include "harness/commands/common.h"
#include "harness/plan/arms.h"
#include "harness/tasks/task.h"

namespace kvscope {

struct SweepOptions {
  ModelOptions model;
  ArmTexts arms;
  std::string tasks = "needle,qa,perplexity";
  std::string database = "kvscope.db";
  TaskFiles files;
  std::string probe = "all";
  bool fresh = false;  // --new
  int prefix_cache_mib = 512;
  std::string metrics_listen;
  std::string metrics_textfile;
  bool json = false;
};

// Options that both commands have.
void add_sweep_options(CLI::App& command, SweepOptions& options);

// Resumes the newest unfinished sweep with the same plan and program, or starts one; prints the
// table.
ExitCode run_sweep(const SweepOptions& options);

}  // namespace kvscope
