// Distributions of metrics: one sketch a (arm, sample, metric), merged over samples when read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/store/store.h"
#include "metrics/probes/probe_summary.h"
#include "metrics/stats/sketch.h"

namespace kvscope {

// Bins as the store keeps them: for each the difference to the bin before (zigzag), then its count,
// both LEB128. decode_bins throws DataError for bytes that encode_bins does not write.
std::vector<std::byte> encode_bins(const Sketch& sketch);
Sketch decode_bins(SketchScale scale, double min, double max, std::span<const std::byte> bytes);

// Of a result that has its row in sample_result; inside the caller's transaction.
void record_sketches(Database& database, std::int64_t arm_id, std::int64_t sample_id,
                     const SampleOutcome& outcome);

// One metric of one arm on one data set over all samples.
struct MetricSketch {
  std::string task;
  std::string dataset;
  std::string metric;
  Sketch sketch;
  std::optional<WorstHead> worst_head;  // of the sample where it is worst
};

// Nothing from files of programs that kept none.
std::vector<MetricSketch> arm_sketches(Store& store, std::int64_t arm_id);

}  // namespace kvscope
