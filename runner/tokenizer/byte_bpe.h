// Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019, section 2.2).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/tokenizer/bpe_merge.h"
#include "runner/tokenizer/joined_text.h"
#include "runner/tokenizer/pretokenizer.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

enum class TokenKind { kText, kControl, kUserDefined };

struct BpeVocabulary {
  std::vector<std::string> tokens;  // text tokens in byte symbols, others as they are written
  std::vector<TokenKind> kinds;     // as many
  std::vector<std::pair<std::string, std::string>> merges;  // in byte symbols, lowest rank first
  std::string pretokenizer;
  std::optional<std::int32_t> bos, eos;
  std::optional<bool> adds_bos;  // none: as usual for the pre-tokenizer
  std::string chat_template;
};

// Words are cut by the pre-tokenizer; inside a word the adjacent pair of lowest rank is merged, the
// leftmost first, until no pair is known. Control tokens are found in a text only with
// SpecialTokens::kParse, user-defined ones always; of those that start at the same place the
// longest wins. A byte that the vocabulary has no token for is left out before merging, as the
// tokenizers library does with such a vocabulary (SmolLM2's lacks 0x04, 0x06, 0x13, 0x14, 0x16,
// 0x1D, 0xF1, 0xF2 and the bytes that never occur in UTF-8).
class ByteBpe final : public Tokenizer {
 public:
  // Throws DataError, without a file's name: unknown pre-tokenizer, a merge of or into something
  // that is no token, ids out of range.
  explicit ByteBpe(BpeVocabulary vocabulary);

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const override;
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts,
                                         bool continues) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t n_vocab() const override { return static_cast<std::int32_t>(bytes_.size()); }
  std::optional<std::int32_t> eos() const override { return eos_; }
  std::optional<std::int32_t> bos() const override { return bos_; }
  bool adds_bos() const override { return adds_bos_; }
  std::optional<std::int32_t> id_of_special(std::string_view text) const override;
  const std::string& chat_template() const override { return chat_template_; }

 private:
  struct Special {
    std::string text;
    std::int32_t id;
    TokenKind kind;
  };
  using TokenIndex = std::unordered_map<std::string_view, std::int32_t>;

  void read_tokens(const BpeVocabulary& vocabulary);
  void read_merges(const BpeVocabulary& vocabulary, const TokenIndex& index);
  void encode_stretch(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_words(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  const Special* special_at(std::string_view text, std::size_t at,
                            const ParsedRanges& parsed) const;

  const PretokenizerRule& rule_;
  Pretokenizer pretokenizer_;
  std::vector<std::string> bytes_;          // [n_vocab] what a token decodes to
  std::array<std::int32_t, 256> byte_ids_;  // -1: no token
  MergeTable merges_;
  TokenIndex whole_words_;                     // views of bytes_; only if the rule says so
  std::vector<Special> specials_;              // longest first
  std::array<bool, 256> starts_special_ = {};  // first bytes of specials_
  std::optional<std::int32_t> bos_, eos_;
  bool adds_bos_ = false;
  std::string chat_template_;
};

}  // namespace kvscope
