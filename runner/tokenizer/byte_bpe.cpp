#include "runner/tokenizer/byte_bpe.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "runner/base/error.h"
#include "runner/tokenizer/byte_symbols.h"

namespace kvscope {
namespace {

constexpr std::int32_t kNone = -1;

const PretokenizerRule& require_rule(const std::string& name) {
  const PretokenizerRule* rule = find_pretokenizer_rule(name);
  if (rule == nullptr) {
    throw DataError("pre-tokenizer '" + name + "' is not supported; known are " +
                    known_pretokenizers());
  }
  return *rule;
}

std::optional<std::int32_t> in_range(std::optional<std::int32_t> id, std::size_t n_vocab,
                                     const char* what) {
  if (id && (*id < 0 || static_cast<std::size_t>(*id) >= n_vocab)) {
    throw DataError(std::string(what) + " token " + std::to_string(*id) +
                    " is outside the vocabulary of " + std::to_string(n_vocab) +
                    "; convert the model again");
  }
  return id;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

// A token of the word under work, in a doubly linked list.
struct Node {
  std::int32_t id;  // kNone once it is part of its left neighbour
  std::int32_t previous, next;
};

// A possible merge of node `left` with its right neighbour; out of date if their ids have changed
// since.
struct Candidate {
  std::int32_t rank, left;
  std::int32_t left_id, right_id, merged_id;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

ByteBpe::ByteBpe(BpeVocabulary vocabulary)
    : rule_(require_rule(vocabulary.pretokenizer)),
      pretokenizer_(rule_),
      bos_(in_range(vocabulary.bos, vocabulary.tokens.size(), "begin-of-text")),
      eos_(in_range(vocabulary.eos, vocabulary.tokens.size(), "end")),
      adds_bos_(vocabulary.adds_bos.value_or(rule_.adds_bos)),
      chat_template_(std::move(vocabulary.chat_template)) {
  if (vocabulary.kinds.size() != vocabulary.tokens.size()) {
    throw DataError("lists " + std::to_string(vocabulary.kinds.size()) + " token types for " +
                    std::to_string(vocabulary.tokens.size()) + " tokens; convert the model again");
  }
  if (adds_bos_ && !bos_) throw DataError("has no begin-of-text token; convert the model again");
  read_tokens(vocabulary);
}

void ByteBpe::read_tokens(const BpeVocabulary& vocabulary) {
  TokenIndex index;
  index.reserve(vocabulary.tokens.size());
  bytes_.reserve(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    const auto id = static_cast<std::int32_t>(i);
    index.emplace(token, id);
    if (vocabulary.kinds[i] == TokenKind::kText) {
      bytes_.push_back(symbols_to_bytes(token).value_or(token));
      continue;
    }
    bytes_.push_back(token);
    if (token.empty()) continue;
    specials_.push_back({token, id, vocabulary.kinds[i]});
    starts_special_[static_cast<unsigned char>(token[0])] = true;
  }
  std::stable_sort(specials_.begin(), specials_.end(), [](const Special& a, const Special& b) {
    return a.text.size() > b.text.size();
  });
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto found = index.find(byte_to_symbol(static_cast<std::uint8_t>(byte)));
    byte_ids_[byte] = found == index.end() ? kNone : found->second;
  }
  if (rule_.whole_words) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (vocabulary.kinds[i] == TokenKind::kText) {
        whole_words_.emplace(bytes_[i], static_cast<std::int32_t>(i));
      }
    }
  }
  read_merges(vocabulary, index);
}

void ByteBpe::read_merges(const BpeVocabulary& vocabulary, const TokenIndex& index) {
  const auto id_of = [&](const std::string& token, std::size_t rank) {
    const auto found = index.find(token);
    if (found == index.end()) {
      throw DataError("merge " + std::to_string(rank) +
                      " names something that is no token; convert the model again");
    }
    return found->second;
  };
  merges_.reserve(vocabulary.merges.size());
  for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const auto& [left, right] = vocabulary.merges[rank];
    const Merge merge{static_cast<std::int32_t>(rank), id_of(left + right, rank)};
    merges_.emplace(pair_key(id_of(left, rank), id_of(right, rank)), merge);
  }
}

const ByteBpe::Merge* ByteBpe::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

const ByteBpe::Special* ByteBpe::special_at(std::string_view text, SpecialTokens special) const {
  if (!starts_special_[static_cast<unsigned char>(text[0])]) return nullptr;
  for (const Special& candidate : specials_) {
    if (candidate.kind == TokenKind::kControl && special == SpecialTokens::kAsText) continue;
    if (text.starts_with(candidate.text)) return &candidate;
  }
  return nullptr;
}

std::vector<std::int32_t> ByteBpe::encode(std::string_view text, SpecialTokens special) const {
  std::vector<std::int32_t> ids;
  std::size_t start = 0;  // of the text since the last special token
  for (std::size_t at = 0; at < text.size();) {
    const Special* found = special_at(text.substr(at), special);
    if (found == nullptr) {
      ++at;
      continue;
    }
    encode_words(text.substr(start, at - start), ids);
    ids.push_back(found->id);
    at += found->text.size();
    start = at;
  }
  encode_words(text.substr(start), ids);
  return ids;
}

void ByteBpe::encode_words(std::string_view text, std::vector<std::int32_t>& ids) const {
  // Texts repeat their words: each is merged once and copied from where its ids stand already.
  struct Range {
    std::size_t first, count;
  };
  std::unordered_map<std::string_view, Range> seen;
  pretokenizer_.split(text, [&](std::string_view word) {
    const std::size_t first = ids.size();
    const auto [known, is_new] = seen.try_emplace(word);
    if (is_new) {
      encode_word(word, ids);
      known->second = {first, ids.size() - first};
      return;
    }
    const Range range = known->second;
    ids.resize(first + range.count);
    std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(range.first), range.count,
                ids.begin() + static_cast<std::ptrdiff_t>(first));
  });
}

// O(n log n) in the word's bytes, so that a text without any word's end does no harm.
void ByteBpe::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    ids.push_back(whole->second);
    return;
  }
  std::vector<Node> nodes;
  nodes.reserve(word.size());
  for (const char c : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id == kNone) continue;
    const auto at = static_cast<std::int32_t>(nodes.size());
    nodes.push_back({id, at - 1, at + 1});
  }
  if (nodes.empty()) return;
  nodes.back().next = kNone;

  std::vector<Candidate> storage;
  storage.reserve(nodes.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(),
                                                                               std::move(storage));
  const auto node = [&](std::int32_t i) -> Node& { return nodes[static_cast<std::size_t>(i)]; };
  const auto propose = [&](std::int32_t left) {
    if (left == kNone || node(left).next == kNone) return;
    const std::int32_t left_id = node(left).id;
    const std::int32_t right_id = node(node(left).next).id;
    if (const Merge* merge = merge_of(left_id, right_id)) {
      queue.push({merge->rank, left, left_id, right_id, merge->id});
    }
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(nodes.size()); ++i) propose(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& left = node(best.left);
    if (left.id != best.left_id || left.next == kNone) continue;
    Node& right = node(left.next);
    if (right.id != best.right_id) continue;
    left.id = best.merged_id;
    right.id = kNone;
    left.next = right.next;
    if (left.next != kNone) node(left.next).previous = best.left;
    propose(left.previous);
    propose(best.left);
  }
  for (std::int32_t i = 0; i != kNone; i = node(i).next) ids.push_back(node(i).id);
}

std::string ByteBpe::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= n_vocab()) {
      throw DataError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                      std::to_string(n_vocab()) + "; give ids of this model");
    }
    text += bytes_[static_cast<std::size_t>(id)];
  }
  return text;
}

std::optional<std::int32_t> ByteBpe::id_of_special(std::string_view text) const {
  for (const Special& special : specials_) {
    if (special.text == text) return special.id;
  }
  return std::nullopt;
}

}  // namespace kvscope
