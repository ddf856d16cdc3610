#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// 1 if one of the golds, a number, is a whole run of digits in the answer: "27269" is in "is
// 27269." and not in "272690". A gold that is no number never matches. 0 or 1.
double needle_recall(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
