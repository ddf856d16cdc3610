// Parts of a text put together, and where special tokens are recognised in it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

class ParsedRanges {
 public:
  void add(std::size_t begin, std::size_t end) {
    if (!ranges_.empty() && ranges_.back().end == begin) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back({begin, end});
    }
  }
  // Do all the bytes [begin, end) lie in parts with SpecialTokens::kParse?
  bool hold(std::size_t begin, std::size_t end) const {
    for (const Range& range : ranges_) {
      if (range.begin <= begin && end <= range.end) return true;
    }
    return false;
  }

 private:
  struct Range {
    std::size_t begin, end;
  };
  std::vector<Range> ranges_;
};

struct JoinedText {
  explicit JoinedText(std::span<const TextPart> parts) {
    for (const TextPart& part : parts) {
      const std::size_t begin = text.size();
      text += part.text;
      if (part.special == SpecialTokens::kParse) parsed.add(begin, text.size());
    }
  }

  std::string text;
  ParsedRanges parsed;
};

}  // namespace kvscope
