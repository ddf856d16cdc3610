#include "runner/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "runner/base/error.h"

namespace kvscope {
namespace {

// Those of one kind; the text of normalised ones is normalised.
AddedTokens select(const std::vector<AddedToken>& tokens, bool normalized,
                   const Normalizer& normalizer) {
  std::vector<AddedToken> selected;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    selected.push_back(token);
    if (!normalized) continue;
    Piece piece{token.text, PieceStart::kText};
    normalizer.apply(piece);
    selected.back().text = piece.text;
  }
  return AddedTokens(std::move(selected));
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : parts_(std::move(parts)),
      verbatim_(select(parts_.added_tokens, false, parts_.normalizer)),
      normalized_(select(parts_.added_tokens, true, parts_.normalizer)) {
  read_bytes();
  const auto check = [&](std::optional<std::int32_t> id, const char* what) {
    if (id && (*id < 0 || *id >= n_vocab())) {
      throw DataError(std::string(what) + " token " + std::to_string(*id) +
                      " is outside the vocabulary of " + std::to_string(n_vocab()));
    }
  };
  check(parts_.bos, "begin-of-text");
  check(parts_.eos, "end");
  if (parts_.adds_bos && !parts_.bos) throw DataError("has no begin-of-text token");
}

void BpeTokenizer::read_bytes() {
  std::int32_t highest = -1;
  for (const auto& [token, id] : parts_.model.vocabulary()) highest = std::max(highest, id);
  for (const AddedToken& token : parts_.added_tokens) highest = std::max(highest, token.id);
  if (highest < 0) throw DataError("has no tokens");
  bytes_.resize(static_cast<std::size_t>(highest) + 1);
  for (const auto& [token, id] : parts_.model.vocabulary()) {
    bytes_[static_cast<std::size_t>(id)] = token_bytes(token, parts_.decoding);
  }
  for (const AddedToken& token : parts_.added_tokens) {
    bytes_[static_cast<std::size_t>(token.id)] = token.text;
    added_ids_.emplace(token.text, token.id);
  }
}

// The state of encoding one text.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, std::span<const TextPart> parts, bool continues)
      : tokenizer_(tokenizer), continues_(continues), joined_(parts) {}

  std::vector<std::int32_t> run() {
    require_utf8(joined_.text);
    tokenizer_.verbatim_.split(
        joined_.text,
        [&](std::size_t begin, std::size_t end) { return joined_.parsed.hold(begin, end); },
        [&](std::size_t begin, std::size_t end, std::optional<std::int32_t> id) {
          if (id) {
            ids_.push_back(*id);
          } else {
            encode_stretch(begin, end);
          }
        });
    return std::move(ids_);
  }

 private:
  struct Range {
    std::size_t first, count;
  };

  // A stretch between tokens that were found in the text itself.
  void encode_stretch(std::size_t begin, std::size_t end) {
    const BpeTokenizerParts& parts = tokenizer_.parts_;
    Piece piece{joined_.text.substr(begin, end - begin), PieceStart::kInner};
    if (begin == 0) piece.start = continues_ ? PieceStart::kContinued : PieceStart::kText;
    parts.normalizer.apply(piece);
    const bool whole = joined_.parsed.hold(begin, end);
    // Where the normaliser may have moved things, a stretch is parsed as a whole or not at all.
    const auto allowed = [&](std::size_t from, std::size_t to) {
      return whole ||
             (parts.normalizer.is_identity() && joined_.parsed.hold(begin + from, begin + to));
    };
    tokenizer_.normalized_.split(
        piece.text, allowed, [&](std::size_t from, std::size_t to, std::optional<std::int32_t> id) {
          if (id) {
            ids_.push_back(*id);
            return;
          }
          encode_words(
              {piece.text.substr(from, to - from), from == 0 ? piece.start : PieceStart::kInner});
        });
  }

  // Texts repeat their words: each is merged once and copied from where its ids stand already.
  void encode_words(Piece piece) {
    for (Piece& word : tokenizer_.parts_.pretokenizer.words(std::move(piece))) {
      const std::size_t first = ids_.size();
      const auto [known, is_new] = seen_.try_emplace(std::move(word.text));
      if (is_new) {
        tokenizer_.parts_.model.encode(known->first, ids_);
        known->second = {first, ids_.size() - first};
        continue;
      }
      const Range range = known->second;
      ids_.resize(first + range.count);
      std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(range.first), range.count,
                  ids_.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }

  const BpeTokenizer& tokenizer_;
  bool continues_;
  JoinedText joined_;
  std::vector<std::int32_t> ids_;
  std::unordered_map<std::string, Range> seen_;  // words and where their ids stand in ids_
};

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text, SpecialTokens special) const {
  const TextPart part{text, special};
  return encode_parts({&part, 1}, false);
}

std::vector<std::int32_t> BpeTokenizer::encode_parts(std::span<const TextPart> parts,
                                                     bool continues) const {
  return Encoding(*this, parts, continues).run();
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  return decode_bytes(ids, bytes_);
}

std::optional<std::int32_t> BpeTokenizer::id_of_special(std::string_view text) const {
  const auto found = added_ids_.find(text);
  return found == added_ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kvscope
