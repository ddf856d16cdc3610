#pragma once

#include <span>
#include <string>

namespace kvscope {

// Harmonic mean of precision and recall of `answer`'s units against `gold`'s, units counted as
// often as they occur in both. 0 without one in common, also for two empty lists.
double multiset_f1(std::span<const std::string> answer, std::span<const std::string> gold);

// Of `common` units out of `answer` and `gold`; 0 if there are none.
double f1_of_counts(double common, double answer, double gold);

}  // namespace kvscope
