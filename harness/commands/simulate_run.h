// Arms on a recorded run: what `kvscope simulate` computes, before it is printed.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harness/plan/arms.h"
#include "metrics/replay/hit_probe.h"
#include "metrics/replay/oracle_losses.h"
#include "runner/trace/trace_reader.h"

namespace kvscope {

struct SimulateRun {
  std::vector<ArmPlan> arms;
  int prompt_tokens = 0;  // 0: arms act from the first token on
  bool oracles = false;
  int random_seeds = 5;  // of the control that skill is measured from
};

// One (recorded layer, KV head). Losses are sums over the rows after the prompt of the group-mean
// full attention that was not visible.
struct SimulatedHead {
  HeadHits hits;
  int budget_tokens = 0;  // the unit's own
  double lost_mass = 0.0;
  // With oracles, at the unit's own budget.
  std::optional<OracleLosses> oracles;
  std::optional<double> bound;  // of them the one that bounds this arm
  std::optional<double>
      random;  // mean over seeds; nothing where the unit's budget is not the arm's
};

struct SimulatedArm {
  ArmPlan plan;
  int budget_tokens = 0;  // B
  bool grows = false;     // nothing is evicted after the prompt: O-prefill bounds it, not O-opt
  std::vector<SimulatedHead> heads;  // [recorded layers][n_kv_heads]
};

// Means over heads; what is undefined for one of them is undefined.
struct SimulatedFigures {
  double mass_hit = 1.0;  // over rows and query heads, as the hits
  double hit_at_32 = 1.0;
  double hit_at_p90 = 1.0;
  double lost_mass = 0.0;
  std::optional<double> step_loss, optimal_loss, greedy_loss, prefill_loss, random_loss;
  std::optional<double> regret;
  std::optional<double> skill;  // of the mean losses
  std::optional<double> share;  // likewise
};
SimulatedFigures figures_of(std::span<const SimulatedHead> heads);

// Nothing if `stop` ended it. advanced: called with every number of layers that are done. Throws
// UsageError for arms that cannot be replayed or do not fit.
std::optional<std::vector<SimulatedArm>> simulate(const TraceReader& trace, const SimulateRun& run,
                                                  int n_threads,
                                                  const std::function<bool()>& stop = {},
                                                  const std::function<void(int)>& advanced = {});

}  // namespace kvscope
