#include "metrics/quality/chinese_f1.h"

#include <algorithm>
#include <vector>

#include "metrics/quality/chinese_text.h"
#include "metrics/quality/chinese_words.h"
#include "metrics/quality/multiset_f1.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

template <typename Split>
double best_f1(std::string_view answer, std::span<const std::string> golds, const Split& split) {
  const std::vector<std::string> units = split(answer);
  double best = 0;
  for (const std::string& gold : golds) best = std::max(best, multiset_f1(units, split(gold)));
  return best;
}

}  // namespace

double character_f1(std::string_view answer, std::span<const std::string> golds) {
  return best_f1(answer, golds,
                 [](std::string_view text) { return characters(normalize_chinese(text)); });
}

double jieba_f1(std::string_view answer, std::span<const std::string> golds,
                const ChineseWords& words) {
  return best_f1(answer, golds, [&](std::string_view text) {
    std::vector<std::string> normal;
    for (const std::string& word : words.cut(text)) {
      if (std::string bare = normalize_chinese(word); !bare.empty()) {
        normal.push_back(std::move(bare));
      }
    }
    return normal;
  });
}

}  // namespace kvscope
