// How a metric is spread over rows and heads, beside its mean over samples.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/json.h"
#include "harness/store/queries.h"
#include "harness/store/sketches.h"

namespace kvscope {

// nullptr: the metric has one value a sample.
const MetricSketch* find_sketch(std::span<const MetricSketch> sketches, const ArmMetricRow& row);

// Median, 95th and 99th percentile, maximum and the worst head ("layer 3 head 1: 0.41"); "-" where
// there are none.
std::vector<std::string> distribution_cells(const MetricSketch* sketch);
Json distribution_json(const MetricSketch* sketch);

// What the diagnosed rows of each task say by majority (policies.md 8.6), a line each: "needle:
// compressed the wrong place (healthy 31 %, wrong place 52 %, too much 17 % of rows)".
std::string diagnosis_text(std::span<const ArmMetricRow> metrics);
Json diagnosis_json(std::span<const ArmMetricRow> metrics);

}  // namespace kvscope
