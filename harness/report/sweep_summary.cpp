#include "harness/report/sweep_summary.h"

#include <algorithm>
#include <map>

#include "harness/report/probe_plan.h"
#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "harness/tasks/task.h"

namespace kvscope {
namespace {

struct DatasetRow {
  std::int64_t id = 0;
  std::string key;
  std::string task;
  std::string name;
  std::string version;
};

// Data sets of a published format say themselves which of their metrics is the main one.
std::string primary_metric(const DatasetRow& dataset) {
  constexpr std::string_view kMark = " metric=";
  if (const std::size_t at = dataset.version.find(kMark); at != std::string::npos) {
    const std::string rest = dataset.version.substr(at + kMark.size());
    return rest.substr(0, rest.find(' '));
  }
  const TaskInfo* info = find_task(dataset.task);
  return info != nullptr ? std::string(info->primary_metric) : std::string();
}

std::vector<DatasetRow> datasets_of(Store& store, const std::string& sweep_uuid) {
  Statement s(store.database(),
              "SELECT dataset_id,dataset_key,task,name,version FROM sweep_dataset JOIN dataset "
              "USING(dataset_id) WHERE sweep_uuid=? ORDER BY dataset_id");
  s.bind(sweep_uuid);
  std::vector<DatasetRow> rows;
  while (s.step()) rows.push_back({s.int64(0), s.text(1), s.text(2), s.text(3), s.text(4)});
  return rows;
}

void count_statuses(Store& store, std::int64_t dataset_id, SweepRow& row) {
  Statement s(store.database(),
              "SELECT status,count(*),min(error) FROM sample_result JOIN sample USING(sample_id) "
              "WHERE arm_id=? AND dataset_id=? GROUP BY status");
  s.bind(row.arm.arm_id, dataset_id);
  while (s.step()) {
    const std::string status = s.text(0);
    (status == "ok" ? row.n_ok : status == "error" ? row.n_error : row.n_skipped) = s.integer(1);
    if (status != "ok") row.reason = s.text(2);
  }
}

// dataset key and metric → arm minus full.
using PairedTable = std::map<std::pair<std::string, std::string>, PairedT>;

PairedTable paired_with(Store& store, std::int64_t full, std::int64_t arm) {
  PairedTable table;
  for (const PairedValues& values : paired_values(store, full, arm)) {
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < values.a.size(); ++i) {
      pairs.push_back({values.clusters[i], values.a[i], values.b[i]});
    }
    table[{values.dataset_key, values.metric}] = paired_t(pairs, std::nullopt);
  }
  return table;
}

}  // namespace

const SweepValue* SweepRow::find(std::string_view metric) const {
  const auto it = std::ranges::find(values, metric, &SweepValue::metric);
  return it == values.end() ? nullptr : &*it;
}

std::vector<SweepTask> summarise_sweep(Store& store, const std::string& sweep_uuid) {
  std::vector<ArmRow> arms = list_arms(store, sweep_uuid);
  std::ranges::stable_sort(arms, std::greater{}, &ArmRow::is_reference);
  std::vector<SweepTask> tasks;
  std::vector<std::int64_t> dataset_ids;  // of each task
  for (const DatasetRow& dataset : datasets_of(store, sweep_uuid)) {
    for (const char* visibility : {"visible", "hidden"}) {
      if (std::ranges::find(arms, visibility, &ArmRow::question_visibility) == arms.end()) continue;
      tasks.push_back({dataset.task,
                       dataset.name,
                       dataset.key,
                       primary_metric(dataset),
                       visibility,
                       {},
                       {},
                       {}});
      dataset_ids.push_back(dataset.id);
    }
  }
  for (const ArmRow& arm : arms) {
    const std::vector<ArmMetricRow> metrics = arm_metrics(store, arm.arm_id);
    // References come first: if there is one of this visibility, it is the first arm of it.
    const ArmRow& full =
        *std::ranges::find(arms, arm.question_visibility, &ArmRow::question_visibility);
    PairedTable paired;
    if (!arm.is_reference && full.is_reference) {
      paired = paired_with(store, full.arm_id, arm.arm_id);
    }
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].question_visibility != arm.question_visibility) continue;
      SweepRow row;
      row.arm = arm;
      count_statuses(store, dataset_ids[t], row);
      for (const ArmMetricRow& m : metrics) {
        if (m.dataset_key != tasks[t].dataset_key) continue;
        SweepValue value{m.metric, m.better, m.n, m.mean, m.stderr_mean, {}};
        const auto found = paired.find({m.dataset_key, m.metric});
        if (found != paired.end()) value.to_full = found->second;
        row.values.push_back(std::move(value));
      }
      row.cells = cell_values(store, arm.arm_id, tasks[t].dataset_key, tasks[t].primary_metric);
      row.rates = text_rates(store, arm.arm_id, tasks[t].dataset_key);
      if (arm.is_reference) {
        tasks[t].baseline = baseline_cells(store, arm.arm_id, tasks[t].dataset_key);
      }
      tasks[t].rows.push_back(std::move(row));
    }
  }
  // A score that needs a dictionary is not there where there is none.
  for (SweepTask& task : tasks) {
    const bool is_there = std::ranges::any_of(
        task.rows, [&](const SweepRow& row) { return row.find(task.primary_metric) != nullptr; });
    const TaskInfo* info = find_task(task.task);
    if (!is_there && info != nullptr) task.primary_metric = info->primary_metric;
  }
  for (const char* visibility : {"visible", "hidden"}) {
    std::vector<ArmRow> same = arms;
    std::erase_if(same, [&](const ArmRow& arm) { return arm.question_visibility != visibility; });
    for (IdentityNote& note : identity_notes(store, same)) {
      for (SweepTask& task : tasks) {
        if (task.question_visibility == visibility && task.dataset_key == note.dataset_key) {
          task.notes.push_back(std::move(note));
          break;
        }
      }
    }
  }
  for (SweepTask& task : tasks) task.probe_plan = stored_probe_plan(store, sweep_uuid);
  return tasks;
}

Json sweep_json(const std::vector<SweepTask>& tasks) {
  Json out = Json::array();
  for (const SweepTask& task : tasks) {
    Json rows = Json::array();
    for (const SweepRow& row : task.rows) {
      Json metrics = Json::object();
      for (const SweepValue& v : row.values) {
        Json value = {{"n", v.n}, {"mean", json_number(v.mean)}};
        value["stderr"] = v.stderr_mean ? json_number(*v.stderr_mean) : Json(nullptr);
        if (v.to_full && v.to_full->mean_difference) {
          value["difference_to_full"] = json_number(*v.to_full->mean_difference);
          const auto& inference = v.to_full->inference;
          value["ci95"] =
              inference ? Json{json_number(inference->ci95.low), json_number(inference->ci95.high)}
                        : Json(nullptr);
          value["pairs"] = v.to_full->n;
          value["clusters"] = v.to_full->clusters;
        }
        metrics[v.metric] = std::move(value);
      }
      Json cells = Json::array();
      for (const CellValues& cell : row.cells) {
        cells.push_back(
            {{"cell", cell.cell}, {"n", cell.values.size()}, {"mean", json_number(cell.mean())}});
      }
      rows.push_back({{"arm_id", row.arm.arm_id},
                      {"arm_key", row.arm.arm_key},
                      {"policy", row.arm.policy},
                      {"budget", row.arm.budget},
                      {"ok", row.n_ok},
                      {"skipped", row.n_skipped},
                      {"errors", row.n_error},
                      {"reason", row.reason},
                      {"metrics", std::move(metrics)},
                      {"cells", std::move(cells)}});
      if (row.rates) rows.back()["text"] = text_rates_json(*row.rates);
    }
    out.push_back({{"task", task.task},
                   {"dataset", task.dataset},
                   {"dataset_key", task.dataset_key},
                   {"primary_metric", task.primary_metric},
                   {"question_visibility", task.question_visibility},
                   {"arms", std::move(rows)},
                   {"baseline", cells_json(task.baseline)},
                   {"notes", notes_json(task.notes)}});
  }
  return out;
}

}  // namespace kvscope
