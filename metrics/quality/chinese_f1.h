// F1 of Chinese answers: by character, which needs nothing, and by word, which needs a dictionary.
// The two differ: "北京大学图书馆" against "北京大学" is 0.727 and 0.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

class ChineseWords;

// InfiniteBench's qa_f1_score_zh: characters of the normalised texts; the best gold.
double character_f1(std::string_view answer, std::span<const std::string> golds);

// LongBench's qa_f1_zh_score: jieba's words, each normalised, empty ones dropped; the best gold.
double jieba_f1(std::string_view answer, std::span<const std::string> golds,
                const ChineseWords& words);

}  // namespace kvscope
