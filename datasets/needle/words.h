// Words that a needle's number belongs to.
#pragma once

#include <span>
#include <string_view>

namespace kvscope {

// Neutral English nouns in lower case, each once.
std::span<const std::string_view> needle_words();

}  // namespace kvscope
