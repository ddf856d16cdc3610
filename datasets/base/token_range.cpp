#include "datasets/base/token_range.h"

#include <algorithm>
#include <string>

namespace kvscope {

TokenRanges::TokenRanges(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::string_view text)
    : text_bytes_(text.size()) {
  std::string decoded;
  ends_.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    decoded += tokenizer.decode(ids.subspan(i, 1));
    ends_.push_back(decoded.size());
  }
  matches_ = decoded.ends_with(text);
  if (matches_) shift_ = decoded.size() - text.size();
}

std::pair<int, int> TokenRanges::find(std::size_t begin, std::size_t end) const {
  if (!matches_ || begin >= end || end > text_bytes_) return {-1, -1};
  // The first token that ends behind the stretch's start, and the first that reaches its end.
  const auto first = std::ranges::upper_bound(ends_, shift_ + begin);
  const auto last = std::ranges::lower_bound(ends_, shift_ + end);
  return {static_cast<int>(first - ends_.begin()), static_cast<int>(last - ends_.begin()) + 1};
}

}  // namespace kvscope
