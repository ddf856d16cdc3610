#include "harness/report/distribution.h"

#include <algorithm>
#include <array>
#include <optional>

#include "harness/report/table.h"
#include "harness/store/metric_info.h"

namespace kvscope {
namespace {

constexpr std::array<std::pair<const char*, double>, 3> kQuantiles = {
    {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}}};

struct Diagnosis {
  std::string task;
  std::string dataset;
  std::array<double, 3> shares{};  // as kReadings
  std::optional<double> suggested_budget_tokens;

  std::size_t majority() const {
    return std::size_t(std::ranges::max_element(shares) - shares.begin());
  }
};

struct Reading {
  const char* metric;
  const char* name;
  const char* text;
};
constexpr std::array<Reading, 3> kReadings = {
    {{"diagnosed_healthy", "healthy", "healthy"},
     {"diagnosed_wrong_place", "wrong_place", "compressed the wrong place"},
     {"diagnosed_too_much", "too_much", "compressed too much"}}};

std::vector<Diagnosis> diagnoses(std::span<const ArmMetricRow> metrics) {
  std::vector<Diagnosis> found;
  const auto of = [&](const ArmMetricRow& row) -> Diagnosis& {
    for (Diagnosis& one : found) {
      if (one.task == row.task && one.dataset == row.dataset) return one;
    }
    found.push_back({row.task, row.dataset, {}, {}});
    return found.back();
  };
  for (const ArmMetricRow& row : metrics) {
    for (std::size_t i = 0; i < kReadings.size(); ++i) {
      if (without_sampled(row.metric) == kReadings[i].metric) of(row).shares[i] = row.mean;
    }
  }
  for (const ArmMetricRow& row : metrics) {
    if (without_sampled(row.metric) != "suggested_budget_tokens") continue;
    of(row).suggested_budget_tokens = row.mean;
  }
  return found;
}

}  // namespace

const MetricSketch* find_sketch(std::span<const MetricSketch> sketches, const ArmMetricRow& row) {
  for (const MetricSketch& sketch : sketches) {
    if (sketch.metric == row.metric && sketch.task == row.task && sketch.dataset == row.dataset) {
      return &sketch;
    }
  }
  return nullptr;
}

std::vector<std::string> distribution_cells(const MetricSketch* sketch) {
  if (sketch == nullptr) return {"-", "-", "-", "-", "-"};
  std::vector<std::string> cells;
  for (const auto& [name, q] : kQuantiles) {
    cells.push_back(format_significant(*sketch->sketch.quantile(q), 4));
  }
  cells.push_back(format_significant(sketch->sketch.max(), 4));
  const auto& worst = sketch->worst_head;
  cells.push_back(worst ? "layer " + std::to_string(worst->layer) + " head " +
                              std::to_string(worst->kv_head) + ": " +
                              format_significant(worst->mean, 4)
                        : "-");
  return cells;
}

Json distribution_json(const MetricSketch* sketch) {
  if (sketch == nullptr) return nullptr;
  Json out = {{"n", sketch->sketch.n()},
              {"min", json_number(sketch->sketch.min())},
              {"max", json_number(sketch->sketch.max())},
              {"worst_head", nullptr}};
  for (const auto& [name, q] : kQuantiles) out[name] = json_number(*sketch->sketch.quantile(q));
  if (const auto& worst = sketch->worst_head) {
    out["worst_head"] = {
        {"layer", worst->layer}, {"kv_head", worst->kv_head}, {"mean", json_number(worst->mean)}};
  }
  return out;
}

std::string diagnosis_text(std::span<const ArmMetricRow> metrics) {
  std::string text;
  for (const Diagnosis& one : diagnoses(metrics)) {
    const std::size_t majority = one.majority();
    text += one.task + ": " + kReadings[majority].text + " (healthy " +
            format_percent(one.shares[0], 0) + ", wrong place " + format_percent(one.shares[1], 0) +
            ", too much " + format_percent(one.shares[2], 0) + " of rows)";
    if (majority == 2 && one.suggested_budget_tokens) {
      text += ", suggested budget " + format_fixed(*one.suggested_budget_tokens, 0) + " tokens";
    }
    text += '\n';
  }
  return text;
}

Json diagnosis_json(std::span<const ArmMetricRow> metrics) {
  Json rows = Json::array();
  for (const Diagnosis& one : diagnoses(metrics)) {
    Json row = {{"task", one.task},
                {"dataset", one.dataset},
                {"reading", kReadings[one.majority()].name},
                {"suggested_budget_tokens", nullptr}};
    for (std::size_t i = 0; i < kReadings.size(); ++i) {
      row["share_" + std::string(kReadings[i].name)] = json_number(one.shares[i]);
    }
    if (one.suggested_budget_tokens) {
      row["suggested_budget_tokens"] = json_number(*one.suggested_budget_tokens);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace kvscope
