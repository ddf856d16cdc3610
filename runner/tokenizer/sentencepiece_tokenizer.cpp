#include "runner/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runner/base/error.h"
#include "runner/tokenizer/added_tokens.h"
#include "runner/tokenizer/joined_text.h"
#include "runner/tokenizer/token_bytes.h"
#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

// Appended to a serialised ModelProto, and so merged into it: normalizer_spec (field 3) with
// add_dummy_prefix (field 3) false.
constexpr std::string_view kNoSpaceBefore("\x1A\x02\x18\x00", 4);
constexpr const char* kSpace = "▁";

void load(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  const auto status = processor.LoadFromSerializedProto(model);
  if (!status.ok()) {
    throw DataError(
        "is no SentencePiece model (Llama-3's tokenizer.model is another format: use its "
        "tokenizer.json)");
  }
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view model, const TokenizerSettings& settings)
      : chat_template_(settings.chat_template) {
    load(processor_, model);
    load(without_space_, std::string(model).append(kNoSpaceBefore));
    read_pieces(settings);
    const auto id = [&](const std::optional<std::string>& text, int otherwise) {
      auto found = text ? id_of_special(*text) : std::nullopt;
      return !found && otherwise >= 0 ? std::optional<std::int32_t>(otherwise) : found;
    };
    bos_ = id(settings.bos_token, processor_.bos_id());
    eos_ = id(settings.eos_token, processor_.eos_id());
    adds_bos_ = settings.adds_bos.value_or(bos_.has_value());
    if (adds_bos_ && !bos_) throw DataError("has no begin-of-text token");
  }

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const override {
    const TextPart part{text, special};
    return encode_parts({&part, 1}, false);
  }

  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts,
                                         bool continues) const override {
    const JoinedText joined(parts);
    require_utf8(joined.text);
    std::vector<std::int32_t> ids;
    added_->split(
        joined.text,
        [&](std::size_t begin, std::size_t end) { return joined.parsed.hold(begin, end); },
        [&](std::size_t begin, std::size_t end, std::optional<std::int32_t> id) {
          if (id) return ids.push_back(*id);
          const bool follows = continues && begin == 0;
          const auto& processor = follows ? without_space_ : processor_;
          std::vector<int> pieces;
          const auto status =
              processor.Encode(std::string_view(joined.text).substr(begin, end - begin), &pieces);
          if (!status.ok()) throw DataError("SentencePiece: " + status.ToString());
          ids.insert(ids.end(), pieces.begin(), pieces.end());
        });
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    return decode_bytes(ids, bytes_);
  }
  std::int32_t n_vocab() const override { return static_cast<std::int32_t>(bytes_.size()); }
  std::optional<std::int32_t> eos() const override { return eos_; }
  std::optional<std::int32_t> bos() const override { return bos_; }
  bool adds_bos() const override { return adds_bos_; }
  const std::string& chat_template() const override { return chat_template_; }
  std::optional<std::int32_t> id_of_special(std::string_view text) const override {
    for (const AddedToken& token : added_->tokens()) {
      if (token.text == text) return token.id;
    }
    // User-defined pieces, which the library finds by itself and does not tell apart: like control
    // and byte pieces they have no score, and of the others only the first, which begins a word.
    const int id = processor_.PieceToId(text);
    const bool none = processor_.IsUnknown(id) || processor_.IsByte(id) || processor_.IsUnused(id);
    return none || processor_.GetScore(id) != 0.0F ? std::nullopt : std::optional(id);
  }

 private:
  void read_pieces(const TokenizerSettings& settings) {
    std::vector<AddedToken> added = settings.added_tokens;
    const int n = processor_.GetPieceSize();
    for (int id = 0; id < n; ++id) {
      const std::string& piece = processor_.IdToPiece(id);
      bytes_.push_back(token_bytes(
          piece, {.byte_symbols = false, .byte_tokens = processor_.IsByte(id), .space = kSpace}));
      if (!processor_.IsControl(id) && !processor_.IsUnknown(id)) continue;
      bytes_.back() = piece;
      const auto same = [&](const AddedToken& token) { return token.text == piece; };
      if (std::any_of(added.begin(), added.end(), same)) continue;
      added.push_back({.text = piece, .id = id, .special = true});
    }
    for (const AddedToken& token : settings.added_tokens) {
      const auto id = static_cast<std::size_t>(token.id);
      if (id >= bytes_.size()) bytes_.resize(id + 1);
      bytes_[id] = token.text;
    }
    added_ = std::make_unique<AddedTokens>(std::move(added));
  }

  sentencepiece::SentencePieceProcessor processor_;
  sentencepiece::SentencePieceProcessor without_space_;  // the same, for texts that continue others
  std::unique_ptr<AddedTokens> added_;
  std::vector<std::string> bytes_;  // [n_vocab] what a token decodes to
  std::optional<std::int32_t> bos_, eos_;
  bool adds_bos_ = false;
  std::string chat_template_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentencepiece(std::string_view model,
                                              const TokenizerSettings& settings) {
  return std::make_unique<SentencePieceTokenizer>(model, settings);
}

}  // namespace kvscope
