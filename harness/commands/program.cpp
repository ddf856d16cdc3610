#include "harness/commands/program.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "harness/build_info/build_info.h"
#include "harness/commands/bench.h"
#include "harness/commands/common.h"
#include "harness/commands/compare.h"
#include "harness/commands/conform.h"
#include "harness/commands/doctor.h"
#include "harness/commands/generate.h"
#include "harness/commands/inspect.h"
#include "harness/commands/list.h"
#include "harness/commands/run.h"
#include "harness/commands/score.h"
#include "harness/commands/show.h"
#include "harness/commands/simulate.h"
#include "harness/commands/stats.h"
#include "harness/commands/sweep.h"
#include "harness/commands/tokenize.h"
#include "harness/commands/trace.h"

namespace kvscope {

int run_kvscope(int argc, const char* const* argv, CudaSupport cuda) {
  CLI::App app("What does KV-cache eviction cost and save, on this model and this work?",
               "kvscope");
  app.set_version_flag("--version", version_line());
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  kvscope sweep --policies h2o,snapkv,tova --budgets 0.1,0.2,0.5 --tasks needle,qa --db "
      "results.db\n"
      "  kvscope compare h2o@0.200 full --db results.db\n"
      "  kvscope score --text book.txt --policy streaming_llm --budget-tokens 256\n"
      "Exit status: 0 ok, 1 gate failed, 2 inconclusive, 3 not evaluable, 64 usage, 65 bad model "
      "or data,\n"
      "  70 internal, 74 input or output, 75 stopped (run again), 130 Ctrl-C.");

  CommandContext context{std::move(cuda)};
  add_sweep_command(app, context);
  add_run_command(app, context);
  add_compare_command(app, context);
  add_list_command(app, context);
  add_show_command(app, context);
  add_tokenize_command(app, context);
  add_score_command(app, context);
  add_generate_command(app, context);
  add_trace_command(app, context);
  add_simulate_command(app, context);
  add_stats_command(app, context);
  add_bench_command(app, context);
  add_doctor_command(app, context);
  add_inspect_command(app, context);
  add_conform_command(app, context);
  return run_program(app, context, argc, argv);
}

}  // namespace kvscope
