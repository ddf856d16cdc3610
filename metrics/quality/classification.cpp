#include "metrics/quality/classification.h"

#include <algorithm>
#include <vector>

namespace kvscope {
namespace {

double score(std::string_view answer, const std::string& gold,
             std::span<const std::string> classes) {
  std::vector<std::string> named;
  for (const std::string& name : classes) {
    if (answer.find(name) != std::string_view::npos) named.push_back(name);
  }
  // The index moves on although the list has become shorter: part of the published score. What is
  // removed is the first entry of that name.
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::string name = named[i];
    if (name == gold || gold.find(name) == std::string::npos) continue;
    named.erase(std::find(named.begin(), named.end(), name));
  }
  const bool found = std::find(named.begin(), named.end(), gold) != named.end();
  return found ? 1.0 / static_cast<double>(named.size()) : 0.0;
}

}  // namespace

double classification(std::string_view answer, std::span<const std::string> golds,
                      std::span<const std::string> classes) {
  double best = 0;
  for (const std::string& gold : golds) best = std::max(best, score(answer, gold, classes));
  return best;
}

}  // namespace kvscope
