// Byte-pair encoding of a word's characters (Sennrich et al. 2016), with byte fallback.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/tokenizer/bpe_merge.h"

namespace kvscope {

struct BpeDescription {
  std::vector<std::pair<std::string, std::int32_t>> vocabulary;  // token, id ≥ 0
  std::vector<std::pair<std::string, std::string>> merges;       // lowest rank first
  std::optional<std::string> unknown;  // what a character that is no token becomes; none: nothing
  bool fuse_unknown = false;           // several in a row become one
  bool byte_fallback = false;          // unless its bytes are tokens "<0x00>" … "<0xFF>"
  bool whole_words = false;            // a word that is a token is taken whole, without merges
};

class BpeModel {
 public:
  // Throws DataError: a merge of or into something that is no token, an unknown token that is none.
  // Of tokens with the same text the first is found.
  explicit BpeModel(BpeDescription description);
  BpeModel(BpeModel&&) = default;
  BpeModel(const BpeModel&) = delete;

  // SentencePiece's rule (Kudo and Richardson 2018, BPE): any two adjacent tokens merge whose text
  // together is a token, that of the highest score first. [n_vocabulary] scores in the order of the
  // description's vocabulary, NaN for tokens that nothing merges into. Throws DataError for a
  // longer token than kMaxScoredBytes, since each way to cut it is tried.
  static constexpr std::size_t kMaxScoredBytes = 512;
  void add_scored_merges(const std::vector<float>& scores);

  // Appends the ids of a word; nothing for an empty one. Valid UTF-8.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;

  std::optional<std::int32_t> id_of(std::string_view token) const;
  const std::vector<std::pair<std::string, std::int32_t>>& vocabulary() const {
    return description_.vocabulary;
  }

 private:
  void add_merges();
  bool append_bytes(std::string_view character, std::vector<std::int32_t>& symbols) const;

  BpeDescription description_;                              // without the merges
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views of the description
  std::vector<std::int32_t> byte_ids_;                      // [256] -1: none; empty: no fallback
  std::optional<std::int32_t> unknown_;
  MergeTable merges_;
};

}  // namespace kvscope
