// "Did you mean …": the known name with the smallest edit distance.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// Levenshtein distance in bytes.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` (the first of equals), or "" if all are further away than half of the
// word's length.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known);

// `; did you mean "x"?` or "".
std::string suggestion(std::string_view word, std::span<const std::string_view> known);

// "a, b, c"
std::string joined(std::span<const std::string_view> words);

}  // namespace kvscope
