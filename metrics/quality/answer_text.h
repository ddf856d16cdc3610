// Which part of a generated text is the answer.
#pragma once

#include <string_view>

namespace kvscope {

// The first line with something on it, without white space at its ends.
std::string_view first_line(std::string_view text);

// The rest of a sentence that the answer's prefix began: the first line up to ".", "!" or "?" at
// its end or before white space.
std::string_view sentence_rest(std::string_view text);

}  // namespace kvscope
