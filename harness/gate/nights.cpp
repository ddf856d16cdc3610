#include "harness/gate/nights.h"

#include <algorithm>
#include <cmath>

#include "harness/gate/arm_values.h"
#include "metrics/stats/paired.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct NightPairs {
  std::string task;
  ArmValues candidate;
  std::vector<Pair> pairs;
};

// The arm's pairs with the full cache of its sweep, one entry a data set.
std::vector<NightPairs> pairs_with_full(Store& store, const ArmRow& arm, const GateCheck& check) {
  std::vector<NightPairs> nights;
  for (const ArmRow& full : list_arms(store, arm.sweep_uuid)) {
    if (!full.is_reference || full.question_visibility != arm.question_visibility) continue;
    const auto of_full = arm_values(store, full.arm_id, check.task, check.metric);
    for (ArmValues& ours : arm_values(store, arm.arm_id, check.task, check.metric)) {
      for (const ArmValues& theirs : of_full) {
        if (theirs.dataset_key != ours.dataset_key || theirs.task != ours.task) continue;
        std::vector<Pair> pairs = join_values(theirs, ours).pairs;
        if (ours.better == "lower") {
          for (Pair& pair : pairs) std::swap(pair.a, pair.b);
        }
        nights.push_back({ours.task, std::move(ours), std::move(pairs)});
        break;
      }
    }
  }
  return nights;
}

void append(std::vector<Pair>& all, const std::vector<Pair>& night,
            const std::string& dataset_key) {
  for (Pair pair : night) {
    pair.cluster = dataset_key.substr(0, 12) + "/" + pair.cluster;
    all.push_back(std::move(pair));
  }
}

void judge_against(CheckResult& result, std::span<const Pair> before) {
  const PairedT then = paired_t(before, std::nullopt);
  if (!result.reason.empty()) return;
  if (!then.inference || then.n < result.rule.min_pairs) {
    result.reason =
        "the nights before hold " + std::to_string(then.n) + " pairs, fewer than needed";
    return;
  }
  result.baseline_mean = *then.mean_difference;
  const GateFigures::Inference now = *result.figures.inference;
  const double a = now.se * now.se;
  const double b = then.inference->se_clustered * then.inference->se_clustered;
  const double spread = a * a / now.df + b * b / then.inference->df;
  const int df = spread > 0 ? std::max(1, int((a + b) * (a + b) / spread)) : now.df;
  result.figures.identical = false;
  result.figures.inference =
      gate_inference(now.delta - *then.mean_difference, std::sqrt(a + b), df, result.rule);
}

}  // namespace

std::vector<CheckResult> compare_with_nights(const GateSuite& suite, const GateCheck& check,
                                             Store& store) {
  const ArmRow arm = find_arm(store, check.candidate);
  const std::vector<ArmRow> earlier = earlier_arms(store, arm);
  std::vector<CheckResult> results;
  for (const NightPairs& tonight : pairs_with_full(store, arm, check)) {
    CheckResult result;
    result.check = check;
    result.name = check.name;
    result.rule = {check.margin, suite.alpha, suite.min_pairs, suite.min_clusters,
                   check.equivalence};
    result.task = tonight.task;
    result.dataset = tonight.candidate.dataset;
    result.dataset_key = tonight.candidate.dataset_key;
    result.unit = tonight.candidate.unit;
    result.better = tonight.candidate.better;
    result.candidate_label = arm.label;
    result.candidate_arm = arm.arm_id;
    result.figures = gate_figures(tonight.pairs, result.rule);
    result.reason = why_not_evaluable(result.figures, result.rule);
    if (result.figures.inference) result.candidate_mean = result.figures.inference->delta;

    std::vector<Pair> before;
    int nights = 0;
    for (const ArmRow& then : earlier) {
      if (nights == check.baseline_nights) break;
      const std::size_t had = before.size();
      for (const NightPairs& night : pairs_with_full(store, then, check)) {
        if (night.task == tonight.task &&
            night.candidate.dataset_key != tonight.candidate.dataset_key) {
          append(before, night.pairs, night.candidate.dataset_key);
        }
      }
      nights += before.size() > had ? 1 : 0;
    }
    result.baseline_label = std::to_string(nights) + " nights before";
    judge_against(result, before);
    results.push_back(std::move(result));
  }
  if (results.empty()) throw UsageError("no sample with this metric that the full cache has too");
  return results;
}

}  // namespace kvscope
