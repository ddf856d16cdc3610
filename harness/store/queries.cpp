#include "harness/store/queries.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "runner/base/error.h"
#include "runner/policies/spec.h"

namespace kvscope {
namespace {

constexpr std::string_view kHiddenSuffix = " question=hidden";
// ArmPlan::label() of what is stored. Not the view's own label, which knew no visibility in files
// of older programs.
constexpr std::string_view kLabel =
    "(policy||'@'||budget||CASE question_visibility WHEN 'hidden' THEN ' question=hidden' ELSE '' "
    "END)";

constexpr std::string_view kColumnsBehindLabel =
    ",model,policy,budget,prefill_mode,position_mode,"
    "question_visibility,dtype,kv_dtype,is_reference,status,n_ok,n_error,n_skipped,";

// Files of older programs, opened for reading, know no backend but the CPU.
bool has_backends(Store& store) { return store.database().pragma("user_version") >= 3; }

std::vector<ArmRow> read_arms(Statement& s) {
  std::vector<ArmRow> rows;
  while (s.step()) {
    rows.push_back({s.int64(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), s.text(6),
                    s.text(7), s.text(8), s.text(9), s.text(10), s.text(11), s.text(17),
                    s.integer(12) != 0, s.text(13), s.integer(14), s.integer(15), s.integer(16)});
  }
  return rows;
}

std::vector<ArmRow> arms_where(Store& store, std::string_view condition, std::string_view value) {
  Statement s(store.database(), "SELECT arm_id,arm_key,sweep_uuid," + std::string(kLabel) +
                                    std::string(kColumnsBehindLabel) +
                                    (has_backends(store) ? "backend" : "'cpu'") +
                                    " FROM v_arm WHERE " + std::string(condition) +
                                    " ORDER BY started_unix DESC, sweep_uuid DESC, arm_id");
  s.bind(value);
  return read_arms(s);
}

// Of arms ordered by sweep, newest first: those of the first sweep.
std::vector<ArmRow> of_newest_sweep(std::vector<ArmRow> arms) {
  if (!arms.empty()) {
    const std::string newest = arms.front().sweep_uuid;
    std::erase_if(arms, [&](const ArmRow& arm) { return arm.sweep_uuid != newest; });
  }
  return arms;
}

bool all_of_kind(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

}  // namespace

std::optional<std::string> newest_sweep(Store& store) {
  Statement s(store.database(),
              "SELECT sweep_uuid FROM sweep ORDER BY created_unix DESC, sweep_uuid DESC LIMIT 1");
  if (!s.step()) return std::nullopt;
  return s.text(0);
}

std::vector<ArmRow> list_arms(Store& store, const std::optional<std::string>& sweep_uuid) {
  if (sweep_uuid) return arms_where(store, "sweep_uuid=?", *sweep_uuid);
  return arms_where(store, "?=''", "");
}

std::vector<RunRow> list_runs(Store& store) {
  Statement s(store.database(),
              "SELECT run_id,run_uuid,sweep_uuid,status,started_unix,finished_unix,program_version,"
              "host,argv,(SELECT count(*) FROM arm WHERE arm.sweep_uuid=run.sweep_uuid),"
              "(SELECT count(*) FROM sample_result r WHERE r.run_id=run.run_id),backend," +
                  std::string(has_backends(store) ? "device_allocated_bytes,device_peak_bytes,"
                                                    "device_driver_delta_bytes"
                                                  : "NULL,NULL,NULL") +
                  " FROM run ORDER BY started_unix DESC, run_id DESC");
  std::vector<RunRow> rows;
  while (s.step()) {
    std::optional<DeviceMemory> memory;
    if (!s.is_null(12)) memory = {s.int64(12), s.int64(13), s.int64(14)};
    rows.push_back({s.int64(0), s.text(1), s.text(2), s.text(3), s.real(4),
                    s.is_null(5) ? std::nullopt : std::optional(s.real(5)), s.text(6), s.text(7),
                    s.text(11), memory, s.text(8), s.integer(9), s.integer(10)});
  }
  return rows;
}

namespace {

// "adakv" is "snapkv+adakv": policies are named as they are stored.
std::string stored_policy(std::string_view text) {
  try {
    return parse_policy(text).canonical;
  } catch (const UsageError&) {  // of a newer program, of a plug-in, or no policy at all
    return std::string(text);
  }
}

// "h2o@0.2" is "h2o@0.200": so are budgets.
std::string stored_label(std::string_view selector) {
  const std::size_t at = selector.rfind('@');
  if (at == std::string_view::npos) return std::string(selector);
  const std::string_view suffix = selector.ends_with(kHiddenSuffix) ? kHiddenSuffix : "";
  const std::string_view name = selector.substr(0, selector.size() - suffix.size());
  try {
    return stored_policy(name.substr(0, at))
        .append("@")
        .append(parse_budget_ratio(name.substr(at + 1)).label())
        .append(suffix);
  } catch (const UsageError&) {
    return std::string(selector);
  }
}

// Everything a selector could mean, in any sweep.
std::vector<ArmRow> arms_named(Store& store, std::string_view selector) {
  std::vector<ArmRow> found;
  if (all_of_kind(selector, "0123456789")) {
    found = arms_where(store, "CAST(arm_id AS TEXT)=?", selector);
  }
  if (found.empty() && selector.size() >= 4 && all_of_kind(selector, "0123456789abcdef")) {
    found = arms_where(store, "substr(arm_key,1,length(?1))=?1", selector);
  }
  if (found.empty()) found = arms_where(store, std::string(kLabel) + "=?", stored_label(selector));
  // Where no arm of that label sees the question, the one that does not is meant.
  if (found.empty()) found = arms_where(store, "policy||'@'||budget=?", stored_label(selector));
  if (found.empty()) found = arms_where(store, "policy=?", stored_policy(selector));
  if (found.empty() && selector.ends_with(kHiddenSuffix)) {
    found = arms_where(store, "question_visibility='hidden' AND policy=?",
                       stored_policy(selector.substr(0, selector.size() - kHiddenSuffix.size())));
  }
  return found;
}

ArmRow only_one(Store& store, std::string_view selector, const std::vector<ArmRow>& found) {
  if (found.size() == 1) return found.front();
  const std::string file = "database " + store.path().string();
  if (found.empty()) {
    throw UsageError(file + ": no arm '" + std::string(selector) + "'; `kvscope list arms --db " +
                     store.path().string() + "` shows what is there");
  }
  std::string names;
  for (const ArmRow& arm : found) names += (names.empty() ? "" : ", ") + arm.label;
  throw UsageError(file + ": '" + std::string(selector) + "' could be " + names);
}

std::vector<ArmRow> of_sweep(const std::vector<ArmRow>& arms, const std::string& sweep_uuid) {
  std::vector<ArmRow> those;
  std::ranges::copy_if(arms, std::back_inserter(those),
                       [&](const ArmRow& arm) { return arm.sweep_uuid == sweep_uuid; });
  return those;
}

// Leaves out arms whose visibility none of `others` has, unless none would be left.
void keep_visibilities_of(const std::vector<ArmRow>& others, std::vector<ArmRow>& arms) {
  const auto shares_none = [&](const ArmRow& arm) {
    return std::ranges::find(others, arm.question_visibility, &ArmRow::question_visibility) ==
           others.end();
  };
  if (!std::ranges::all_of(arms, shares_none)) std::erase_if(arms, shares_none);
}

}  // namespace

ArmRow find_arm(Store& store, std::string_view selector) {
  return only_one(store, selector, of_newest_sweep(arms_named(store, selector)));
}

ArmRow find_arm_of_sweep(Store& store, std::string_view selector, const std::string& sweep_uuid) {
  return only_one(store, selector, of_sweep(arms_named(store, selector), sweep_uuid));
}

std::pair<ArmRow, ArmRow> find_arm_pair(Store& store, std::string_view a, std::string_view b) {
  std::vector<ArmRow> as = arms_named(store, a);
  std::vector<ArmRow> bs = arms_named(store, b);
  // "full" beside an arm that does not see the question is the full arm that does not either.
  keep_visibilities_of(bs, as);
  keep_visibilities_of(as, bs);
  std::vector<ArmRow> shared;
  std::ranges::copy_if(as, std::back_inserter(shared),
                       [&](const ArmRow& arm) { return !of_sweep(bs, arm.sweep_uuid).empty(); });
  if (shared.empty()) {
    return {only_one(store, a, of_newest_sweep(as)), only_one(store, b, of_newest_sweep(bs))};
  }
  const ArmRow first = only_one(store, a, of_newest_sweep(shared));
  return {first, only_one(store, b, of_sweep(bs, first.sweep_uuid))};
}

std::vector<ArmMetricRow> arm_metrics(Store& store, std::int64_t arm_id) {
  Statement s(
      store.database(),
      "SELECT task,dataset,dataset_key,metric,unit,better,n,mean,variance FROM v_arm_metric "
      "WHERE arm_id=? ORDER BY dataset_id,metric_id");
  s.bind(arm_id);
  std::vector<ArmMetricRow> rows;
  while (s.step()) {
    const int n = s.integer(6);
    std::optional<double> se;
    if (!s.is_null(8)) se = std::sqrt(s.real(8) / n);
    rows.push_back(
        {s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), n, s.real(7), se});
  }
  return rows;
}

std::vector<PairedValues> paired_values(Store& store, std::int64_t a_arm, std::int64_t b_arm) {
  Statement s(store.database(),
              "SELECT d.task,d.name,d.dataset_key,m.name,m.unit,m.kind,m.better,p.cluster_key,"
              "p.a_value,p.b_value FROM v_ab_pair p JOIN dataset d USING(dataset_id) "
              "JOIN metric m USING(metric_id) WHERE a_arm=? AND b_arm=? "
              "ORDER BY p.dataset_id,p.metric_id,p.sample_id");
  s.bind(a_arm, b_arm);
  std::vector<PairedValues> sets;
  while (s.step()) {
    if (sets.empty() || sets.back().dataset_key != s.text(2) || sets.back().metric != s.text(3)) {
      sets.push_back({s.text(0),
                      s.text(1),
                      s.text(2),
                      s.text(3),
                      s.text(4),
                      s.text(5),
                      s.text(6),
                      {},
                      {},
                      {}});
    }
    sets.back().clusters.push_back(s.text(7));
    sets.back().a.push_back(s.real(8));
    sets.back().b.push_back(s.real(9));
  }
  return sets;
}

std::vector<ResultRow> arm_results(Store& store, std::int64_t arm_id) {
  std::map<std::int64_t, std::vector<std::pair<std::string, double>>> metrics;
  Statement m(store.database(),
              "SELECT sample_id,name,value FROM sample_metric JOIN metric USING(metric_id) WHERE "
              "arm_id=? ORDER BY sample_id,metric_id");
  m.bind(arm_id);
  while (m.step()) metrics[m.int64(0)].emplace_back(m.text(1), m.real(2));

  Statement s(store.database(),
              "SELECT d.task,d.name,x.sample_key,x.cluster_key,r.status,r.error,r.mode_run,o.text,"
              "o.gold,r.sample_id FROM sample_result r JOIN sample x USING(sample_id) "
              "JOIN dataset d USING(dataset_id) LEFT JOIN sample_output o "
              "ON o.arm_id=r.arm_id AND o.sample_id=r.sample_id "
              "WHERE r.arm_id=? ORDER BY r.sample_id");
  s.bind(arm_id);
  std::vector<ResultRow> rows;
  while (s.step()) {
    rows.push_back({s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), s.text(6),
                    s.text(7), s.text(8), metrics[s.int64(9)]});
  }
  return rows;
}

}  // namespace kvscope
