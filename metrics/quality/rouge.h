// ROUGE (Lin 2004) as the package rouge_score computes it, without stemming: lower-case, everything
// but a-z and 0-9 is a space; F measure of the best gold. Chinese therefore scores 0.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

double rouge_1(std::string_view answer, std::span<const std::string> golds);
double rouge_2(std::string_view answer, std::span<const std::string> golds);
double rouge_l(std::string_view answer, std::span<const std::string> golds);
// By sentences, which are the text's lines.
double rouge_l_sum(std::string_view answer, std::span<const std::string> golds);

// L-Eval's and SCROLLS' figure, of one answer: cube root of ROUGE-1 · ROUGE-2 · ROUGE-L. (They take
// the root of the three means over all answers, which differs.) And with ROUGE-Lsum.
double rouge_geometric_mean(std::string_view answer, std::span<const std::string> golds);
double rouge_geometric_mean_sum(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
