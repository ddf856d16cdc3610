// Where a stretch of text lies among a prompt's tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Tokens [first, second) of `ids` that hold any of bytes [begin, end) of `text`, where the decoded
// ids end with `text` (ChatTemplate::render_user). {-1, -1} when they do not or the stretch is
// empty.
std::pair<int, int> token_range(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                std::string_view text, std::size_t begin, std::size_t end);

}  // namespace kvscope
