#include "runner/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "runner/base/error.h"
#include "runner/tokenizer/characters.h"

namespace kvscope {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} * 256 + static_cast<unsigned char>(byte);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& text = tokens_[i].text;
    if (text.size() > kMaxBytes) {
      throw DataError("added token " + std::to_string(tokens_[i].id) + " is longer than " +
                      std::to_string(kMaxBytes) + " bytes");
    }
    if (text.empty()) continue;
    first_bytes_[static_cast<unsigned char>(text[0])] = true;
    std::uint32_t node = 0;
    for (const char byte : text) {
      const auto [next, is_new] =
          edges_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(token_of_node_.size()));
      if (is_new) token_of_node_.push_back(-1);
      node = next->second;
    }
    if (token_of_node_[node] < 0) token_of_node_[node] = static_cast<std::int32_t>(i);
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  if (!first_bytes_[static_cast<unsigned char>(text[0])]) return nullptr;
  const AddedToken* longest = nullptr;
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto next = edges_.find(edge(node, byte));
    if (next == edges_.end()) break;
    node = next->second;
    if (const std::int32_t token = token_of_node_[node]; token >= 0) {
      longest = &tokens_[static_cast<std::size_t>(token)];
    }
  }
  return longest;
}

void AddedTokens::split(std::string_view text, const Allowed& allowed, const Found& found) const {
  std::size_t done = 0;  // of the text, also by the white space that a token took
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->text.size();
    at = end;
    if (token->special && !allowed(begin, end)) continue;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token->left_strip && done < begin) {
      begin -= trailing_white_space(text.substr(done, begin - done));
    }
    if (token->right_strip && done <= end) end += leading_white_space(text.substr(end));
    begin = std::max(begin, done);
    if (done < begin) found(done, begin, std::nullopt);
    found(begin, std::max(begin, end), token->id);
    done = std::max(begin, end);
  }
  if (done < text.size()) found(done, text.size(), std::nullopt);
}

}  // namespace kvscope
