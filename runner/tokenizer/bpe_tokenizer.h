// Normaliser, pre-tokenizer and byte-pair encoding one after another, as the tokenizers library
// (Hugging Face) defines them: what tokenizer.json describes, and GGUF's "llama" vocabularies.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/tokenizer/added_tokens.h"
#include "runner/tokenizer/bpe_model.h"
#include "runner/tokenizer/joined_text.h"
#include "runner/tokenizer/normalizer.h"
#include "runner/tokenizer/piece.h"
#include "runner/tokenizer/pretokenizer_chain.h"
#include "runner/tokenizer/token_bytes.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct BpeTokenizerParts {
  Normalizer normalizer;
  PretokenizerChain pretokenizer;
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  TokenDecoding decoding;
  std::optional<std::int32_t> bos, eos;
  bool adds_bos = false;
  std::string chat_template;
};

class BpeTokenizer final : public Tokenizer {
 public:
  // Throws DataError, without a file's name: ids out of range, added tokens that cannot be used, no
  // token at all, a begin-of-text token that is wanted and not there.
  explicit BpeTokenizer(BpeTokenizerParts parts);

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const override;
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts,
                                         bool continues) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t n_vocab() const override { return static_cast<std::int32_t>(bytes_.size()); }
  std::optional<std::int32_t> eos() const override { return parts_.eos; }
  std::optional<std::int32_t> bos() const override { return parts_.bos; }
  bool adds_bos() const override { return parts_.adds_bos; }
  std::optional<std::int32_t> id_of_special(std::string_view text) const override;
  const std::string& chat_template() const override { return parts_.chat_template; }

 private:
  class Encoding;  // one text's

  void read_bytes();

  BpeTokenizerParts parts_;
  AddedTokens verbatim_;            // looked for in the text itself
  AddedTokens normalized_;          // in the normalised text, in its normalised form
  std::vector<std::string> bytes_;  // [n_vocab] what a token decodes to
  std::unordered_map<std::string_view, std::int32_t> added_ids_;  // views of parts_
};

}  // namespace kvscope
