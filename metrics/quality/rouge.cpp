#include "metrics/quality/rouge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "metrics/quality/lcs.h"
#include "metrics/quality/multiset_f1.h"
#include "metrics/quality/normalize.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

WordList words_of(std::string_view text) {
  std::string plain = lower(text);
  for (char& c : plain) {
    const bool kept = ('a' <= c && c <= 'z') || ('0' <= c && c <= '9');
    if (!kept) c = ' ';
  }
  return split_words(plain);
}

std::vector<std::string> ngrams(const WordList& words, std::size_t n) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    std::string& gram = result.emplace_back();
    for (std::size_t k = 0; k < n; ++k) gram += words[i + k] + ' ';
  }
  return result;
}

double ngram_f1(const std::string_view answer, const std::string& gold, std::size_t n) {
  return multiset_f1(ngrams(words_of(answer), n), ngrams(words_of(gold), n));
}

double lcs_f1(std::string_view answer, const std::string& gold) {
  const WordList a = words_of(gold);
  const WordList b = words_of(answer);
  return f1_of_counts(LcsTable(a, b).length(), static_cast<double>(b.size()),
                      static_cast<double>(a.size()));
}

std::vector<WordList> lines_of(std::string_view text) {
  std::vector<WordList> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(words_of(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

double lcs_sum_f1(std::string_view answer, const std::string& gold) {
  const auto gold_lines = lines_of(gold);
  const auto answer_lines = lines_of(answer);
  // A word counts at most as often as each side has it.
  std::map<std::string, int> left_in_gold;
  std::map<std::string, int> left_in_answer;
  double n_gold = 0;
  double n_answer = 0;
  for (const WordList& line : gold_lines) {
    n_gold += static_cast<double>(line.size());
    for (const std::string& word : line) ++left_in_gold[word];
  }
  for (const WordList& line : answer_lines) {
    n_answer += static_cast<double>(line.size());
    for (const std::string& word : line) ++left_in_answer[word];
  }
  double hits = 0;
  for (const WordList& line : gold_lines) {
    std::set<std::size_t> found;
    for (const WordList& other : answer_lines) {
      const auto indices = lcs_indices(line, other, LcsTie::kBackInA);
      found.insert(indices.begin(), indices.end());
    }
    for (const std::size_t i : found) {
      if (left_in_gold[line[i]] == 0 || left_in_answer[line[i]] == 0) continue;
      --left_in_gold[line[i]];
      --left_in_answer[line[i]];
      ++hits;
    }
  }
  return f1_of_counts(hits, n_answer, n_gold);
}

template <typename Score>
double best(std::span<const std::string> golds, const Score& score) {
  double most = 0;
  for (const std::string& gold : golds) most = std::max(most, score(gold));
  return most;
}

}  // namespace

double rouge_1(std::string_view answer, std::span<const std::string> golds) {
  return best(golds, [&](const std::string& gold) { return ngram_f1(answer, gold, 1); });
}

double rouge_2(std::string_view answer, std::span<const std::string> golds) {
  return best(golds, [&](const std::string& gold) { return ngram_f1(answer, gold, 2); });
}

double rouge_l(std::string_view answer, std::span<const std::string> golds) {
  return best(golds, [&](const std::string& gold) { return lcs_f1(answer, gold); });
}

double rouge_l_sum(std::string_view answer, std::span<const std::string> golds) {
  return best(golds, [&](const std::string& gold) { return lcs_sum_f1(answer, gold); });
}

double rouge_geometric_mean(std::string_view answer, std::span<const std::string> golds) {
  return std::cbrt(rouge_1(answer, golds) * rouge_2(answer, golds) * rouge_l(answer, golds));
}

double rouge_geometric_mean_sum(std::string_view answer, std::span<const std::string> golds) {
  return std::cbrt(rouge_1(answer, golds) * rouge_2(answer, golds) * rouge_l_sum(answer, golds));
}

}  // namespace kvscope
