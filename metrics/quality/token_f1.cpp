#include "metrics/quality/token_f1.h"

#include <algorithm>
#include <vector>

#include "metrics/quality/multiset_f1.h"
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
  return multiset_f1(answer_words, gold_words);
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
