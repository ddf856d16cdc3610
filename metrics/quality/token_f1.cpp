#include "metrics/quality/token_f1.h"

#include <algorithm>
#include <map>
#include <vector>

#include "metrics/quality/normalize.h"

namespace kvscope {
namespace {

bool is_closed_answer(const std::string& text) {
  return text == "yes" || text == "no" || text == "noanswer";
}

double f1_of_pair(const std::string& answer, const std::string& gold, F1Rule rule) {
  if (rule == F1Rule::kHotpotQa && answer != gold &&
      (is_closed_answer(answer) || is_closed_answer(gold))) {
    return 0;
  }
  const std::vector<std::string> answer_words = split_words(answer);
  const std::vector<std::string> gold_words = split_words(gold);
  if (rule == F1Rule::kSquad && (answer_words.empty() || gold_words.empty())) {
    return answer_words.empty() && gold_words.empty() ? 1 : 0;
  }
  std::map<std::string, int> left;
  for (const std::string& word : gold_words) ++left[word];
  int common = 0;
  for (const std::string& word : answer_words) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(answer_words.size());
  const double recall = static_cast<double>(common) / static_cast<double>(gold_words.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

double token_f1(std::string_view answer, std::span<const std::string> golds, F1Rule rule) {
  const std::string normal = normalize_answer(answer);
  double best = 0;
  for (const std::string& gold : golds) {
    best = std::max(best, f1_of_pair(normal, normalize_answer(gold), rule));
  }
  return best;
}

}  // namespace kvscope
