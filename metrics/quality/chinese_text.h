#pragma once

#include <string>
#include <string_view>

namespace kvscope {

// Lower-case, without ASCII punctuation, without LongBench's list of CJK punctuation (which lacks
// "《") and without white space.
std::string normalize_chinese(std::string_view text);

}  // namespace kvscope
