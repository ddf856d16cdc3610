// Cuts a text into words by one rule after another ("pre_tokenizer" of tokenizer.json).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runner/tokenizer/piece.h"

namespace kvscope {

class PretokenizerChain {
 public:
  using Step = std::function<std::vector<Piece>(std::vector<Piece>)>;

  PretokenizerChain() = default;  // a text is one word
  explicit PretokenizerChain(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // The words of a piece in order, none empty; their text may differ from the piece's. Throws
  // DataError where it grows beyond most_bytes_from its size.
  std::vector<Piece> words(Piece piece) const;

 private:
  std::vector<Step> steps_;
};

// ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation,
// CharDelimiterSplit, Sequence. Throws DataError for others.
PretokenizerChain read_pretokenizer(const nlohmann::json& description);

}  // namespace kvscope
