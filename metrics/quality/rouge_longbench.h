#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

class ChineseWords;

// ROUGE-L as LongBench computes it with the PyPI package `rouge`, not to be confused with rouge_l
// (rouge.h): sentences end at ".", case counts, words are sets (repetitions are dropped), the union
// over sentences is counted once, f = 2pr / (p + r + 1e-8). 0 for an answer without a sentence. The
// best gold. The package gives 0 beyond Python's recursion limit; here long texts have their score.
double rouge_l_longbench(std::string_view answer, std::span<const std::string> golds);

// The same over jieba's words (dureader, vcsum).
double rouge_l_longbench_jieba(std::string_view answer, std::span<const std::string> golds,
                               const ChineseWords& words);

}  // namespace kvscope
