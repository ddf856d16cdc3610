#include "metrics/quality/rouge_longbench.h"

#include <algorithm>
#include <set>

#include "metrics/quality/chinese_words.h"
#include "metrics/quality/lcs.h"
#include "metrics/quality/normalize.h"

namespace kvscope {
namespace {

using WordSet = std::set<std::string>;

// The words of each sentence. One of white space only has a single empty word, as splitting at a
// space gives.
std::vector<WordList> sentences(std::string_view text) {
  std::vector<WordList> result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    if (end > begin) {
      result.push_back(split_words(text.substr(begin, end - begin)));
      if (result.back().empty()) result.back().emplace_back();
    }
    begin = end + 1;
  }
  return result;
}

WordSet distinct(const std::vector<WordList>& sentences) {
  WordSet words;
  for (const WordList& sentence : sentences) words.insert(sentence.begin(), sentence.end());
  return words;
}

double score(const std::vector<WordList>& answer, const std::vector<WordList>& gold) {
  if (answer.empty() || gold.empty()) return 0;
  WordSet common;
  for (const WordList& gold_sentence : gold) {
    for (const WordList& sentence : answer) {
      for (const std::size_t i : lcs_indices(gold_sentence, sentence, LcsTie::kBackInB)) {
        common.insert(gold_sentence[i]);
      }
    }
  }
  const double count = static_cast<double>(common.size());
  const double recall = count / static_cast<double>(distinct(gold).size());
  const double precision = count / static_cast<double>(distinct(answer).size());
  return 2.0 * ((precision * recall) / (precision + recall + 1e-8));
}

std::string spaced(std::string_view text, const ChineseWords& words) {
  std::string result;
  for (const std::string& word : words.cut(text)) result += (result.empty() ? "" : " ") + word;
  return result;
}

}  // namespace

double rouge_l_longbench(std::string_view answer, std::span<const std::string> golds) {
  const auto answer_sentences = sentences(answer);
  double best = 0;
  for (const std::string& gold : golds) {
    best = std::max(best, score(answer_sentences, sentences(gold)));
  }
  return best;
}

double rouge_l_longbench_jieba(std::string_view answer, std::span<const std::string> golds,
                               const ChineseWords& words) {
  std::vector<std::string> spaced_golds;
  for (const std::string& gold : golds) spaced_golds.push_back(spaced(gold, words));
  return rouge_l_longbench(spaced(answer, words), spaced_golds);
}

}  // namespace kvscope
