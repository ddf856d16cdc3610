// What becomes of a piece where a pattern matches in it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizer/piece.h"

namespace kvscope {

// As the tokenizers library names them: the matches go, stand alone, join the stretch before or
// behind them, or stand alone with the matches beside them.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior split_behavior(const std::string& name);  // "Isolated"; throws DataError

// Calls its second argument with the matches' bytes [begin, end), in order.
using Matcher = std::function<void(std::string_view text,
                                   const std::function<void(std::size_t, std::size_t)>& match)>;
Matcher pattern_matcher(const std::string& pattern);  // a regular expression; throws DataError
Matcher text_matcher(std::string text);

// invert: what lies between the matches is taken for them and the other way round.
struct SplitRule {
  Matcher matcher;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;

  // Appends the parts of `piece` that are not empty.
  void apply(const Piece& piece, std::vector<Piece>& out) const;
};

}  // namespace kvscope
