// What a tokenizer does to a text before it is cut into words ("normalizer" of tokenizer.json).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runner/tokenizer/piece.h"

namespace kvscope {

class Normalizer {
 public:
  using Step = std::function<void(Piece&)>;

  Normalizer() = default;  // leaves texts as they are
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  bool is_identity() const { return steps_.empty(); }
  // Its text is valid UTF-8. Throws DataError where it grows beyond most_bytes_from its size.
  void apply(Piece& piece) const;

 private:
  std::vector<Step> steps_;
};

// Puts `text` before a piece that is not empty.
Normalizer::Step prepend_step(std::string text);
Normalizer::Step replace_step(std::string from, std::string to);

// NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, Sequence. Throws DataError for others.
Normalizer read_normalizer(const nlohmann::json& description);

}  // namespace kvscope
