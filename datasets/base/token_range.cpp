#include "datasets/base/token_range.h"

#include <string>
#include <vector>

namespace kvscope {

std::pair<int, int> token_range(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                std::string_view text, std::size_t begin, std::size_t end) {
  std::string decoded;
  std::vector<std::size_t> ends;  // byte behind each token
  ends.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    decoded += tokenizer.decode(ids.subspan(i, 1));
    ends.push_back(decoded.size());
  }
  if (begin >= end || end > text.size() || !decoded.ends_with(text)) return {-1, -1};
  const std::size_t shift = decoded.size() - text.size();
  int first = -1;
  int last = -1;
  for (std::size_t i = 0, start = 0; i < ends.size(); start = ends[i++]) {
    if (ends[i] > shift + begin && start < shift + end) {
      if (first < 0) first = static_cast<int>(i);
      last = static_cast<int>(i);
    }
  }
  return {first, last + 1};
}

}  // namespace kvscope
