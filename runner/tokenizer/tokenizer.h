// Text to token ids and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

enum class SpecialTokens { kAsText, kParse };  // kParse: "<|im_start|>" in the text becomes its id

// A stretch of a longer text.
struct TextPart {
  std::string_view text;
  SpecialTokens special;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // No BOS is added unless the model's file asks for one and add_bos() is used by the caller. A
  // byte-level tokenizer of a GGUF file takes any bytes, and invalid UTF-8 as bytes; the others
  // throw DataError for invalid UTF-8.
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const = 0;
  // The parts' texts joined and encoded as one. Control tokens are recognised where they lie in
  // parts with kParse only, so that a template's tokens can stand around a text that holds none.
  // continues: the text follows one that was encoded before, so that no space is put before it by
  // tokenizers that begin a text with one.
  virtual std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts,
                                                 bool continues) const = 0;
  // Concatenated bytes of the ids; special tokens by their text. A space that the tokenizer put
  // before a text stays, so that the decoded ids of two texts joined are the two decoded texts
  // joined. Throws DataError for an id out of range.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::int32_t n_vocab() const = 0;
  virtual std::optional<std::int32_t> eos() const = 0;
  virtual std::optional<std::int32_t> bos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual std::optional<std::int32_t> id_of_special(std::string_view text) const = 0;
  virtual const std::string& chat_template() const = 0;  // Jinja text, may be empty
};

}  // namespace kvscope
