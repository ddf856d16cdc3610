#include "harness/gate/gate_run.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/gate/arm_values.h"
#include "harness/gate/gate_history.h"
#include "harness/gate/nights.h"
#include "harness/report/table.h"
#include "metrics/stats/multiplicity.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

GateRule rule_of(const GateSuite& suite, const GateCheck& check) {
  return {check.margin, suite.alpha, suite.min_pairs, suite.min_clusters, check.equivalence};
}

CheckResult result_of(const GateSuite& suite, const GateCheck& check) {
  CheckResult result;
  result.check = check;
  result.name = check.name;
  result.rule = rule_of(suite, check);
  return result;
}

CheckResult not_evaluable(CheckResult result, std::string why) {
  result.verdict = Verdict::kError;
  result.reason = std::move(why);
  return result;
}

// + is better.
std::vector<Pair> oriented(std::vector<Pair> pairs, const std::string& better) {
  if (better == "lower") {
    for (Pair& pair : pairs) std::swap(pair.a, pair.b);
  }
  return pairs;
}

double mean_of(const ArmValues& values) {
  double sum = 0;
  for (const ArmValue& v : values.values) sum += v.value;
  return sum / double(values.values.size());
}

void describe(CheckResult& result, const ArmValues& candidate) {
  result.task = candidate.task;
  result.dataset = candidate.dataset;
  result.dataset_key = candidate.dataset_key;
  result.unit = candidate.unit;
  result.better = candidate.better;
  result.candidate_mean = mean_of(candidate);
}

// Too many failed samples hide what the others would say.
std::string too_many_errors(const ArmRow& arm, double most) {
  const int finished = arm.n_ok + arm.n_error;
  if (finished == 0) return arm.label + " has no finished sample";
  if (arm.n_error <= most * finished) return "";
  return std::to_string(arm.n_error) + " of " + std::to_string(finished) + " samples of " +
         arm.label + " failed";
}

// Figures, and the reason why there are none.
void judge(CheckResult& result, std::vector<Pair> pairs) {
  result.figures = gate_figures(oriented(std::move(pairs), result.better), result.rule);
  result.reason = why_not_evaluable(result.figures, result.rule);
}

void compare_arms(CheckResult& result, const ArmValues& baseline, const ArmValues& candidate) {
  JoinedValues joined = join_values(baseline, candidate);
  if (joined.other_inputs > 0) {
    result.reason = std::to_string(joined.other_inputs) +
                    " samples have other inputs under the same name: not the same work";
    return;
  }
  double sum = 0;
  for (const Pair& pair : joined.pairs) sum += pair.a;
  if (!joined.pairs.empty()) result.baseline_mean = sum / double(joined.pairs.size());
  if (result.check.margin_is_relative && result.baseline_mean) {
    result.rule.margin = result.check.margin * std::abs(*result.baseline_mean);
  }
  judge(result, std::move(joined.pairs));
}

std::vector<CheckResult> compare_check(const GateSuite& suite, const GateCheck& check,
                                       Store& store) {
  CheckResult empty = result_of(suite, check);
  std::optional<Store> pinned;
  if (!check.baseline_database.empty()) {
    pinned = Store::open(check.baseline_database, StoreAccess::kReadOnly);
  }
  ArmRow baseline;
  ArmRow candidate;
  if (pinned) {
    candidate = find_arm(store, check.candidate);
    baseline = find_arm(*pinned, check.baseline);
  } else {
    std::tie(baseline, candidate) = find_arm_pair(store, check.baseline, check.candidate);
  }
  empty.candidate_label = candidate.label;
  empty.candidate_arm = candidate.arm_id;
  empty.baseline_label = baseline.label;
  if (!pinned) empty.baseline_arm = baseline.arm_id;
  if (baseline.question_visibility != candidate.question_visibility) {
    return {not_evaluable(empty, "the question is visible to one of the arms only")};
  }
  if (baseline.backend != candidate.backend) {
    return {not_evaluable(empty, "the arms ran on different backends")};
  }
  for (const ArmRow& arm : {baseline, candidate}) {
    if (std::string why = too_many_errors(arm, suite.max_error_rate); !why.empty()) {
      return {not_evaluable(empty, why)};
    }
  }
  const auto of_candidate = arm_values(store, candidate.arm_id, check.task, check.metric);
  const auto of_baseline =
      arm_values(pinned ? *pinned : store, baseline.arm_id, check.task, check.metric);
  std::vector<CheckResult> results;
  for (const ArmValues& ours : of_candidate) {
    const auto theirs = std::ranges::find_if(of_baseline, [&](const ArmValues& v) {
      return v.dataset_key == ours.dataset_key && v.task == ours.task;
    });
    if (theirs == of_baseline.end()) continue;
    CheckResult result = empty;
    describe(result, ours);
    compare_arms(result, *theirs, ours);
    results.push_back(std::move(result));
  }
  if (results.empty()) {
    results.push_back(not_evaluable(empty, "the arms share no finished sample with this metric"));
  }
  return results;
}

std::vector<CheckResult> bound_check(const GateSuite& suite, const GateCheck& check, Store& store) {
  CheckResult empty = result_of(suite, check);
  const ArmRow arm = find_arm(store, check.candidate);
  empty.candidate_label = arm.label;
  empty.candidate_arm = arm.arm_id;
  if (std::string why = too_many_errors(arm, suite.max_error_rate); !why.empty()) {
    return {not_evaluable(empty, why)};
  }
  std::vector<CheckResult> results;
  for (const ArmValues& values : arm_values(store, arm.arm_id, check.task, check.metric)) {
    CheckResult result = empty;
    describe(result, values);
    std::vector<Pair> pairs;
    for (const ArmValue& v : values.values) {
      pairs.push_back(check.min ? Pair{v.cluster, *check.min, v.value}
                                : Pair{v.cluster, v.value, *check.max});
    }
    result.figures = gate_figures(pairs, result.rule);
    result.reason = why_not_evaluable(result.figures, result.rule);
    results.push_back(std::move(result));
  }
  if (results.empty()) {
    results.push_back(not_evaluable(empty, "the arm has no finished sample with this metric"));
  }
  return results;
}

// Two sweeps of one plan must agree to the last bit.
CheckResult determinism_check(const GateSuite& suite, const GateCheck& check, Store& store) {
  CheckResult result = result_of(suite, check);
  const ArmRow arm = find_arm(store, check.candidate);
  result.candidate_label = arm.label;
  result.candidate_arm = arm.arm_id;
  const auto ours = arm_values(store, arm.arm_id, check.task, "");
  std::int64_t compared = 0;
  std::int64_t different = 0;
  std::string first;
  for (const ArmRow& other : earlier_arms(store, arm)) {
    for (const ArmValues& theirs : arm_values(store, other.arm_id, check.task, "")) {
      for (const ArmValues& mine : ours) {
        if (mine.dataset_key != theirs.dataset_key || mine.metric != theirs.metric ||
            mine.task != theirs.task) {
          continue;
        }
        for (const Pair& pair : join_values(mine, theirs).pairs) {
          ++compared;
          if (pair.a == pair.b) continue;
          ++different;
          if (first.empty()) first = mine.task + " " + mine.metric;
        }
      }
    }
  }
  result.figures.n = compared;
  if (compared == 0) {
    return not_evaluable(result, "no other sweep of this arm on the same samples in the database");
  }
  result.verdict = different == 0 ? Verdict::kPass : Verdict::kFail;
  result.reason = different == 0 ? "all values are equal to the last bit in another sweep"
                                 : std::to_string(different) + " of " + std::to_string(compared) +
                                       " values differ from another sweep's, first " + first;
  return result;
}

std::vector<CheckResult> results_of(const GateSuite& suite, const GateCheck& check, Store& store) {
  try {
    switch (check.kind) {
      case GateCheck::Kind::kDeterministic:
        return {determinism_check(suite, check, store)};
      case GateCheck::Kind::kBound:
        return bound_check(suite, check, store);
      case GateCheck::Kind::kCompare:
        if (check.baseline_nights > 0) return compare_with_nights(suite, check, store);
        return compare_check(suite, check, store);
    }
  } catch (const UsageError& e) {  // no such arm, or several
    return {not_evaluable(result_of(suite, check), e.what())};
  } catch (const IoError& e) {  // no pinned database
    return {not_evaluable(result_of(suite, check), e.what())};
  }
  return {};
}

std::string reason_of(const CheckResult& result) {
  const GateFigures::Inference* seen =
      result.figures.inference ? &*result.figures.inference : nullptr;
  if (result.figures.identical) return "all values are equal";
  const auto text = [](double value) { return format_significant(value, 4); };
  const std::string margin = text(result.rule.margin);
  switch (result.verdict) {
    case Verdict::kPass:
      if (seen->upper < 0) return "worse, but by less than the margin " + margin;
      if (seen->lower > 0 && result.check.kind == GateCheck::Kind::kCompare) return "improved";
      return "not worse by more than the margin " + margin;
    case Verdict::kFail:
      return "worse by " + text(-seen->delta) + ", more than the margin " + margin +
             " (adjusted p " + text(result.p_adjusted) + ")";
    case Verdict::kInconclusive: {
      std::string reason = "too few samples to tell; a difference of " +
                           text(seen->detectable_effect) + " would be seen";
      if (seen->clusters_to_decide) {
        reason += ", " + std::to_string(*seen->clusters_to_decide) + " clusters would settle it";
      }
      return reason;
    }
    case Verdict::kError:
      break;
  }
  return result.reason;
}

// Holm over all that can be decided together.
void decide_all(std::vector<CheckResult>& results) {
  std::vector<double> p;
  std::vector<CheckResult*> decided;
  for (CheckResult& result : results) {
    if (!result.reason.empty() || !result.figures.inference) continue;
    p.push_back(result.figures.inference->p_worse);
    decided.push_back(&result);
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  for (std::size_t i = 0; i < decided.size(); ++i) {
    CheckResult& result = *decided[i];
    result.p_adjusted = adjusted[i];
    result.verdict = decide(result.figures, result.p_adjusted, result.rule);
    result.reason = reason_of(result);
  }
}

void name_apart(std::vector<CheckResult>& results) {
  for (CheckResult& result : results) {
    const auto same = std::ranges::count(results, result.check.name,
                                         [](const CheckResult& r) { return r.check.name; });
    if (same > 1) result.name += " [" + result.task + " " + result.dataset + "]";
  }
}

}  // namespace

GateReport run_gate(const GateSuite& suite, Store& store) {
  GateReport report{suite.name, store.path().string(), suite.alpha, {}, Verdict::kError};
  for (const GateCheck& check : suite.checks) {
    for (CheckResult& result : results_of(suite, check, store)) {
      report.results.push_back(std::move(result));
    }
  }
  name_apart(report.results);
  decide_all(report.results);
  for (CheckResult& result : report.results) {
    result.history = check_history(store, suite.name, result);
    if (suite.sequential && result.history.alarm && result.verdict != Verdict::kError &&
        result.verdict != Verdict::kFail) {
      result.verdict = Verdict::kFail;
      result.reason = "worse than the margin over " + std::to_string(result.history.nights) +
                      " nights (evidence " +
                      format_significant(result.history.evidence_of_worse, 3) + ", alarm at " +
                      format_significant(1 / suite.alpha, 3) + ")";
    }
  }
  report.verdict = overall_verdict(report.results);
  return report;
}

Verdict overall_verdict(const std::vector<CheckResult>& results) {
  const auto has = [&](Verdict verdict) {
    return std::ranges::any_of(
        results, [&](const CheckResult& r) { return r.verdict == verdict && !r.check.warn_only; });
  };
  for (const Verdict worst : {Verdict::kError, Verdict::kFail, Verdict::kInconclusive}) {
    if (has(worst)) return worst;
  }
  return Verdict::kPass;
}

void confirm(GateReport& report, const GateReport& fresh) {
  for (CheckResult& result : report.results) {
    if (result.verdict != Verdict::kFail || result.check.kind == GateCheck::Kind::kDeterministic) {
      continue;
    }
    const auto again = std::ranges::find_if(fresh.results, [&](const CheckResult& r) {
      return r.check.name == result.check.name && r.task == result.task;
    });
    if (again == fresh.results.end() || again->verdict == Verdict::kError) {
      result.reason += "; fresh samples could not be evaluated";
    } else if (again->dataset_key == result.dataset_key) {
      result.reason += "; the second database holds the same samples: nothing confirmed";
    } else if (again->verdict == Verdict::kFail) {
      result.reason += "; confirmed on fresh samples";
    } else {
      result.verdict = Verdict::kInconclusive;
      result.reason += "; not confirmed on fresh samples: " + again->reason;
    }
  }
  report.verdict = overall_verdict(report.results);
}

ExitCode exit_code_of(Verdict verdict, const std::string& inconclusive) {
  switch (verdict) {
    case Verdict::kPass:
      return ExitCode::kOk;
    case Verdict::kFail:
      return ExitCode::kGateFailed;
    case Verdict::kError:
      return ExitCode::kNotEvaluable;
    case Verdict::kInconclusive:
      break;
  }
  if (inconclusive == "pass") return ExitCode::kOk;
  return inconclusive == "fail" ? ExitCode::kGateFailed : ExitCode::kInconclusive;
}

}  // namespace kvscope
