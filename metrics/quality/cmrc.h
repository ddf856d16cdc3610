// CMRC 2018's scores (Cui et al. 2019).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// F1 of the longest run of segments that both texts have; segments are Chinese characters, and
// words of everything else. Words are what white space parts: the published scorer uses a tokenizer
// of English there, which also parts off punctuation. The best gold.
double cmrc_f1(std::string_view answer, std::span<const std::string> golds);

// 1 if a gold equals the answer once the scorer's list of punctuation is deleted.
double cmrc_exact_match(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
