// Every metric that a sample can have: one table.
#pragma once

#include <span>
#include <string_view>

namespace kvscope {

struct MetricInfo {
  std::string_view name;
  std::string_view unit;    // ratio, nats, bits, bytes, tokens, 1
  std::string_view kind;    // binary | continuous | count
  std::string_view better;  // higher | lower | none
  std::string_view help;    // one sentence
};

// What the name of an estimate from sampled rows ends in; without it, the name of the same over
// all.
inline constexpr std::string_view kSampledSuffix = "_sampled";

// "rebound_mass" of both "rebound_mass" and "rebound_mass_sampled".
constexpr std::string_view without_sampled(std::string_view metric) {
  if (metric.ends_with(kSampledSuffix)) metric.remove_suffix(kSampledSuffix.size());
  return metric;
}

std::span<const MetricInfo> metric_infos();
const MetricInfo* find_metric(std::string_view name);  // nullptr if unknown

}  // namespace kvscope
