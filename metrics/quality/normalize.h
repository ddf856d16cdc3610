// The normalisation of SQuAD's scorer (Rajpurkar et al. 2016), which most extractive scores share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// In this order: lower-case; delete ASCII punctuation (only that: “ — é stay, "1,200" becomes
// "1200"); replace the whole words a, an, the by a space; collapse white space.
std::string normalize_answer(std::string_view text);

// The same without lower-casing (L-Eval).
std::string normalize_cased(std::string_view text);

// Python's string.punctuation.
bool is_ascii_punctuation(char c);

// Words between white space.
std::vector<std::string> split_words(std::string_view text);

}  // namespace kvscope
