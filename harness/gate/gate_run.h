// Decides the checks of a gate on what a database holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/exit_code.h"
#include "harness/gate/gate_suite.h"
#include "harness/store/store.h"
#include "metrics/stats/change_point.h"
#include "metrics/stats/gate_rule.h"

namespace kvscope {

// What earlier gates of this name saw of the same check; nights with the same data count once.
struct CheckHistory {
  int nights = 0;                // tonight included
  double evidence_of_worse = 1;  // sequential.h; an alarm at 1 / alpha
  bool alarm = false;
  std::optional<ChangePoint> change;  // of the nightly difference, oldest first
};

// One check on one data set.
struct CheckResult {
  GateCheck check;
  std::string name;  // the check's; with the data set where it has several
  std::string task;
  std::string dataset;
  std::string dataset_key;
  std::string unit;
  std::string better;
  std::string candidate_label;
  std::string baseline_label;  // empty where there is none
  std::int64_t candidate_arm = 0;
  std::optional<std::int64_t> baseline_arm;  // of the candidate's database
  double candidate_mean = 0;
  std::optional<double> baseline_mean;

  GateRule rule;
  GateFigures figures;
  double p_adjusted = 1;  // Holm, over the gate
  Verdict verdict = Verdict::kError;
  std::string reason;  // one sentence: what the verdict rests on
  CheckHistory history;
};

struct GateReport {
  std::string name;
  std::string database;
  double alpha = 0;
  std::vector<CheckResult> results;  // in order of the checks
  Verdict verdict = Verdict::kError;
};

// Never throws for what one check lacks (an arm, a metric, samples): that check is an error. Throws
// for a database that cannot be read.
GateReport run_gate(const GateSuite& suite, Store& store);

// Over all checks that are not warn_only: error before fail before inconclusive before pass.
Verdict overall_verdict(const std::vector<CheckResult>& results);

// What a fail of the first report is worth after fresh samples: it stays one where the second
// report fails, too, and becomes inconclusive where it does not. Other verdicts stay.
void confirm(GateReport& report, const GateReport& fresh);

// 0 pass, 1 fail, 2 inconclusive, 3 error; an inconclusive gate as `inconclusive` says.
ExitCode exit_code_of(Verdict verdict, const std::string& inconclusive);

// Rows of gate_result: the history of later gates. Checks without an arm or data set leave none.
void record_gate(Store& store, const GateReport& report);

}  // namespace kvscope
