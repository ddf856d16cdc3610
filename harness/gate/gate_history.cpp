#include "harness/gate/gate_history.h"

#include <set>

#include "harness/report/json.h"
#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "harness/store/transaction.h"

namespace kvscope {
namespace {

constexpr int kShuffles = 9'999;
constexpr std::uint64_t kShuffleSeed = 0x6e696768;

std::optional<std::int64_t> id_of(Store& store, const char* sql, const std::string& a,
                                  const std::string& b = "") {
  Statement s(store.database(), sql);
  if (b.empty()) {
    s.bind(a);
  } else {
    s.bind(a, b);
  }
  if (!s.step()) return std::nullopt;
  return s.int64(0);
}

}  // namespace

CheckHistory check_history(Store& store, const std::string& gate, const CheckResult& tonight) {
  CheckHistory history;
  if (!tonight.figures.inference) return history;
  Statement s(store.database(),
              "SELECT d.dataset_key,g.delta,json_extract(g.detail,'$.se'),json_extract(g.detail,"
              "'$.df') FROM gate_result g JOIN dataset d USING(dataset_id) WHERE g.gate_name=? AND "
              "json_extract(g.detail,'$.check')=? AND g.delta IS NOT NULL ORDER BY g.created_unix,"
              "g.gate_id");
  s.bind(gate, tonight.check.name);
  std::set<std::string> seen{tonight.dataset_key};
  std::vector<NightResult> nights;
  std::vector<double> deltas;
  while (s.step()) {
    if (s.is_null(2) || s.is_null(3) || !seen.insert(s.text(0)).second) continue;
    nights.push_back({s.real(1), s.real(2), s.integer(3)});
    deltas.push_back(s.real(1));
  }
  const GateFigures::Inference& now = *tonight.figures.inference;
  nights.push_back({now.delta, now.se, now.df});
  deltas.push_back(now.delta);
  history.nights = int(nights.size());
  history.evidence_of_worse = evidence_of_worse(nights, tonight.rule.margin).back();
  history.alarm = history.nights > 1 && history.evidence_of_worse >= 1 / tonight.rule.alpha;
  history.change = find_change(deltas, kShuffles, kShuffleSeed);
  return history;
}

void record_gate(Store& store, const GateReport& report) {
  Transaction transaction(store.database());
  for (const CheckResult& result : report.results) {
    if (result.candidate_arm == 0 || result.check.metric.empty()) continue;
    const auto dataset =
        id_of(store, "SELECT dataset_id FROM dataset WHERE dataset_key=? AND task=?",
              result.dataset_key, result.task);
    const auto metric =
        id_of(store, "SELECT metric_id FROM metric WHERE name=?", result.check.metric);
    if (!dataset || !metric) continue;
    const auto& seen = result.figures.inference;
    const auto number = [&](double GateFigures::Inference::*member) {
      return seen ? std::optional((*seen).*member) : std::nullopt;
    };
    Json detail = {{"check", result.check.name},
                   {"candidate", result.candidate_label},
                   {"baseline", result.baseline_label},
                   {"reason", result.reason}};
    if (seen) {
      detail["se"] = json_number(seen->se);
      detail["df"] = seen->df;
    }
    Statement insert(
        store.database(),
        "INSERT INTO gate_result(created_unix,gate_name,baseline_arm_id,"
        "candidate_arm_id,dataset_id,metric_id,n_pairs,n_clusters,delta,ci_low,ci_high,"
        "p_value,p_adjusted,margin,mde,verdict,detail) "
        "VALUES((julianday('now')-2440587.5)*86400.0,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    insert
        .bind(report.name, result.baseline_arm.value_or(result.candidate_arm), result.candidate_arm,
              *dataset, *metric, result.figures.n, result.figures.clusters,
              number(&GateFigures::Inference::delta), number(&GateFigures::Inference::lower),
              number(&GateFigures::Inference::upper), number(&GateFigures::Inference::p_worse),
              seen ? std::optional(result.p_adjusted) : std::nullopt, result.rule.margin,
              number(&GateFigures::Inference::detectable_effect),
              std::string(name_of(result.verdict)), detail.dump())
        .run();
  }
  transaction.commit();
}

}  // namespace kvscope
