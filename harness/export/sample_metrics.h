// What one finished sample, or one finished arm, adds to the exported metrics.
#pragma once

#include <span>
#include <string>

#include "harness/export/metric_book.h"
#include "harness/store/queries.h"
#include "harness/store/records.h"

namespace kvscope {

// arm: model_name, policy, budget. selection_units: layers × KV heads.
void add_sample_metrics(MetricBook& book, const MetricBook::Labels& arm, const std::string& dataset,
                        const SampleOutcome& outcome, int selection_units);

// labels: model_name, policy, budget, dataset.
void add_result_metrics(MetricBook& book, const MetricBook::Labels& labels,
                        std::span<const ArmMetricRow> metrics);

}  // namespace kvscope
