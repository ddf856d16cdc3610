// Every metric family that a run exports: one table (observability.md §1.4). Names, units and
// buckets are a contract with the dashboards.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvscope {

enum class FamilyType : std::uint8_t { kGauge, kCounter, kHistogram };

struct FamilyInfo {
  std::string_view name;
  FamilyType type;
  std::string_view help;                 // one sentence; says what is counted and over what
  std::span<const double> buckets = {};  // upper bounds, of histograms
};

std::span<const FamilyInfo> metric_families();
const FamilyInfo* find_family(std::string_view name);  // nullptr if unknown

}  // namespace kvscope
