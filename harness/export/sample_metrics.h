// What one finished sample, or one finished arm, adds to the exported metrics.
#pragma once

#include <span>
#include <string>

#include "harness/export/metric_book.h"
#include "harness/store/queries.h"
#include "harness/store/records.h"

namespace kvscope {

// Makes every counter that a sample of this arm may raise, at 0: one that appears with its first
// increment loses it for rate(). arm: model_name, policy, budget.
void start_arm_counters(MetricBook& book, const MetricBook::Labels& arm,
                        const std::string& dataset);

// arm: model_name, policy, budget. selection_units: layers × KV heads.
void add_sample_metrics(MetricBook& book, const MetricBook::Labels& arm, const std::string& dataset,
                        const SampleOutcome& outcome, int selection_units);

// labels: model_name, policy, budget, dataset.
void add_result_metrics(MetricBook& book, const MetricBook::Labels& labels,
                        std::span<const ArmMetricRow> metrics);

}  // namespace kvscope
