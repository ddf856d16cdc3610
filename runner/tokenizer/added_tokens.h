// Tokens that are found in a text as they are written, before it is cut into words ("added_tokens"
// of tokenizer.json; control and user-defined tokens of GGUF).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvscope {

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;      // a control token: found only where special tokens are parsed
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;  // takes the white space behind it
  bool single_word = false;  // not beside a character of a word
  bool normalized = false;   // looked for in the normalised text
};

// Of tokens that begin at the same place the longest is found, and the search goes on behind it.
class AddedTokens {
 public:
  // May the special token at the bytes [begin, end) be taken for one? If not, it is text.
  using Allowed = std::function<bool(std::size_t begin, std::size_t end)>;
  // A stretch between tokens (no id, not empty) or a token with the white space that it takes.
  using Found =
      std::function<void(std::size_t begin, std::size_t end, std::optional<std::int32_t> id)>;

  // Throws DataError for a token longer than kMaxBytes, so that a search takes at most that many
  // steps a byte.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  static constexpr std::size_t kMaxBytes = 1024;

  void split(std::string_view text, const Allowed& allowed, const Found& found) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  const AddedToken* longest_at(std::string_view text) const;  // null: none starts there

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_bytes_ = {};
  std::unordered_map<std::uint64_t, std::uint32_t>
      edges_;                                       // node · 256 + byte → node; 0 is the root
  std::vector<std::int32_t> token_of_node_ = {-1};  // index into tokens_; -1: none ends there
};

}  // namespace kvscope
