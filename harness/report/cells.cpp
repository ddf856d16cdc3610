#include "harness/report/cells.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "harness/report/table.h"
#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "metrics/stats/wilson.h"

namespace kvscope {
namespace {

struct Rule {
  std::string_view metric;
  double least;
  double times_no_context;  // 0: the questions alone do not matter
};
constexpr Rule kRules[] = {
    {"recall", 0.8, 0.0}, {"string_match_all", 0.5, 0.0}, {"token_f1", 0.1, 2.0}};

// Tags that make cells.
constexpr std::string_view kCellTags[] = {"length", "turn"};

std::string cell_of(const std::string& tags) {
  const auto json = nlohmann::json::parse(tags, nullptr, false);
  std::string cell;
  for (const std::string_view tag : kCellTags) {
    if (!json.is_object() || !json.contains(tag) || !json[tag].is_string()) continue;
    if (!cell.empty()) cell += ' ';
    cell.append(tag).append("=").append(json[tag].get<std::string>());
  }
  return cell;
}

std::vector<CellValues> by_cell(Statement& s) {
  std::vector<CellValues> cells;
  while (s.step()) {
    const std::string cell = cell_of(s.text(0));
    auto at = std::ranges::find(cells, cell, &CellValues::cell);
    if (at == cells.end()) at = cells.insert(cells.end(), {cell, {}});
    at->values.push_back(s.real(1));
  }
  return cells;
}

// Of the full arms of the same model, in any sweep of the file.
std::vector<CellValues> no_context_values(Store& store, std::int64_t full_arm_id,
                                          std::string_view dataset_key, std::string_view metric) {
  Statement s(store.database(),
              "SELECT x.tags,v.value FROM sample_metric v JOIN metric m USING(metric_id) "
              "JOIN sample x USING(sample_id) JOIN dataset d USING(dataset_id) "
              "JOIN arm a ON a.arm_id=v.arm_id WHERE d.version=? AND m.name=? AND a.is_reference=1 "
              "AND a.model_id=(SELECT model_id FROM arm WHERE arm_id=?) ORDER BY x.sample_id");
  s.bind(no_context_version(dataset_key), metric, full_arm_id);
  return by_cell(s);
}

BaselineCell judged(const Rule& rule, const CellValues& full,
                    const std::vector<CellValues>& no_context) {
  BaselineCell cell{full.cell,
                    std::string(rule.metric),
                    static_cast<int>(full.values.size()),
                    full.mean(),
                    {},
                    {},
                    {}};
  const auto is_binary = [](double value) { return value == 0.0 || value == 1.0; };
  if (std::ranges::all_of(full.values, is_binary)) {
    const double hits = std::accumulate(full.values.begin(), full.values.end(), 0.0);
    cell.wilson95 = kvscope::wilson95(std::llround(hits), cell.n);
  }
  const auto same = std::ranges::find(no_context, full.cell, &CellValues::cell);
  if (same != no_context.end()) cell.no_context = same->mean();
  if (rule.times_no_context == 0.0) {
    cell.least = rule.least;
  } else if (cell.no_context) {
    cell.least = std::max(rule.least, rule.times_no_context * *cell.no_context);
  }
  return cell;
}

}  // namespace

double CellValues::mean() const {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<CellValues> cell_values(Store& store, std::int64_t arm_id, std::string_view dataset_key,
                                    std::string_view metric) {
  Statement s(store.database(),
              "SELECT x.tags,v.value FROM sample_metric v JOIN metric m USING(metric_id) "
              "JOIN sample x USING(sample_id) JOIN dataset d USING(dataset_id) "
              "WHERE v.arm_id=? AND d.dataset_key=? AND m.name=? ORDER BY x.sample_id");
  s.bind(arm_id, dataset_key, metric);
  return by_cell(s);
}

std::vector<BaselineCell> baseline_cells(Store& store, std::int64_t full_arm_id,
                                         std::string_view dataset_key) {
  std::vector<BaselineCell> cells;
  for (const Rule& rule : kRules) {
    const auto full = cell_values(store, full_arm_id, dataset_key, rule.metric);
    if (full.empty()) continue;
    const auto without = no_context_values(store, full_arm_id, dataset_key, rule.metric);
    for (const CellValues& cell : full) cells.push_back(judged(rule, cell, without));
    break;  // one rule judges a task
  }
  return cells;
}

std::string no_context_version(std::string_view dataset_key) {
  return std::string("no_context of ").append(dataset_key);
}

std::string cell_warnings(const std::vector<BaselineCell>& cells) {
  std::string text;
  int alone = 0;
  for (const BaselineCell& cell : cells) {
    alone += cell.n == 1;
    if (cell.clears()) continue;
    text += "  baseline too weak" + (cell.cell.empty() ? "" : " at " + cell.cell) +
            ": the full cache has " + cell.metric + " " + format_fixed(cell.mean, 2) +
            " (n = " + std::to_string(cell.n) + "), " + format_fixed(*cell.least, 2) +
            " is asked for: nothing can be said about eviction there\n";
  }
  if (alone > 0) {
    text += "  " + std::to_string(alone) + " of " + std::to_string(cells.size()) +
            " cells have one sample: no error is known there\n";
  }
  return text;
}

Json cells_json(const std::vector<BaselineCell>& cells) {
  Json out = Json::array();
  for (const BaselineCell& cell : cells) {
    Json row = {{"cell", cell.cell},
                {"metric", cell.metric},
                {"n", cell.n},
                {"mean", json_number(cell.mean)},
                {"wilson95", nullptr},
                {"no_context", cell.no_context ? json_number(*cell.no_context) : Json(nullptr)},
                {"least", cell.least ? json_number(*cell.least) : Json(nullptr)},
                {"clears", cell.least ? Json(cell.clears()) : Json(nullptr)}};
    if (cell.wilson95) {
      row["wilson95"] = {json_number(cell.wilson95->low), json_number(cell.wilson95->high)};
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace kvscope
