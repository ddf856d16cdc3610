#include "metrics/quality/multiset_f1.h"

#include <map>

namespace kvscope {

double f1_of_counts(double common, double answer, double gold) {
  if (common == 0) return 0;
  const double precision = common / answer;
  const double recall = common / gold;
  return 2 * precision * recall / (precision + recall);
}

double multiset_f1(std::span<const std::string> answer, std::span<const std::string> gold) {
  std::map<std::string_view, int> left;
  for (const std::string& unit : gold) ++left[unit];
  int common = 0;
  for (const std::string& unit : answer) {
    const auto found = left.find(unit);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  return f1_of_counts(common, static_cast<double>(answer.size()), static_cast<double>(gold.size()));
}

}  // namespace kvscope
