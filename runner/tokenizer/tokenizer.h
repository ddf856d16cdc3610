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

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // No BOS is added unless the model's file asks for one and add_bos() is used by the caller. Any
  // bytes are accepted; invalid UTF-8 is tokenised as bytes.
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const = 0;
  // Concatenated bytes of the ids; special tokens by their text. Throws DataError for an id out of
  // range.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::int32_t n_vocab() const = 0;
  virtual std::optional<std::int32_t> eos() const = 0;
  virtual std::optional<std::int32_t> bos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual std::optional<std::int32_t> id_of_special(std::string_view text) const = 0;
  virtual const std::string& chat_template() const = 0;  // tokenizer.chat_template, may be empty
};

}  // namespace kvscope
