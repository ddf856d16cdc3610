#include "runner/tokenizer/byte_bpe.h"

#include <algorithm>

#include "runner/base/error.h"
#include "runner/tokenizer/byte_symbols.h"
#include "runner/tokenizer/token_bytes.h"
#include "runner/tokenizer/unicode_form.h"
#include "runner/tokenizer/utf8.h"

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
    merges_.add(id_of(left, rank), id_of(right, rank),
                {static_cast<std::int32_t>(rank), id_of(left + right, rank)});
  }
}

const ByteBpe::Special* ByteBpe::special_at(std::string_view text, std::size_t at,
                                            const ParsedRanges& parsed) const {
  if (!starts_special_[static_cast<unsigned char>(text[at])]) return nullptr;
  for (const Special& candidate : specials_) {
    if (!text.substr(at).starts_with(candidate.text)) continue;
    if (candidate.kind != TokenKind::kControl || parsed.hold(at, at + candidate.text.size())) {
      return &candidate;
    }
  }
  return nullptr;
}

std::vector<std::int32_t> ByteBpe::encode(std::string_view text, SpecialTokens special) const {
  const TextPart part{text, special};
  return encode_parts({&part, 1}, false);
}

std::vector<std::int32_t> ByteBpe::encode_parts(std::span<const TextPart> parts, bool) const {
  const JoinedText joined(parts);
  const std::string_view text = joined.text;
  std::vector<std::int32_t> ids;
  std::size_t start = 0;  // of the text since the last special token
  for (std::size_t at = 0; at < text.size();) {
    const Special* found = special_at(text, at, joined.parsed);
    if (found == nullptr) {
      ++at;
      continue;
    }
    encode_stretch(text.substr(start, at - start), ids);
    ids.push_back(found->id);
    at += found->text.size();
    start = at;
  }
  encode_stretch(text.substr(start), ids);
  return ids;
}

void ByteBpe::encode_stretch(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (!rule_.nfc) return encode_words(text, ids);
  std::string normal;
  while (!text.empty()) {
    const std::size_t valid = utf8_valid_prefix(text);
    normal += to_unicode_form(text.substr(0, valid), UnicodeForm::kNfc);
    text.remove_prefix(valid);
    if (text.empty()) break;
    normal += text[0];
    text.remove_prefix(1);
  }
  encode_words(normal, ids);
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

void ByteBpe::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    ids.push_back(whole->second);
    return;
  }
  std::vector<std::int32_t> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id != kNone) symbols.push_back(id);
  }
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

std::string ByteBpe::decode(std::span<const std::int32_t> ids) const {
  return decode_bytes(ids, bytes_);
}

std::optional<std::int32_t> ByteBpe::id_of_special(std::string_view text) const {
  for (const Special& special : specials_) {
    if (special.text == text) return special.id;
  }
  return std::nullopt;
}

}  // namespace kvscope
