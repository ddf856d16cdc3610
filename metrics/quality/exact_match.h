#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// SQuAD's exact match: 1 if the normalised answer equals one of the normalised golds, else 0. Two
// empty ones are equal.
double exact_match(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
