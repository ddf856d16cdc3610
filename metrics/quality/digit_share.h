// LongBench's scores of answers that are a number: the share of the answer's runs of digits that
// equal the gold's. 0 without digits in the answer. The best gold.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// passage_count: the gold is the number.
double count_share(std::string_view answer, std::span<const std::string> golds);

// passage_retrieval: the gold's number stands behind "Paragraph " or "段落"; 0 for a gold without.
double retrieval_share(std::string_view answer, std::span<const std::string> golds);
double retrieval_share_zh(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
