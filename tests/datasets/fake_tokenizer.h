// A tokenizer whose ids can be read: one id a byte, and the two special tokens of ChatML.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

class FakeTokenizer : public Tokenizer {
 public:
  static constexpr std::int32_t kStart = 256;
  static constexpr std::int32_t kEnd = 257;
  static constexpr std::int32_t kBos = 258;

  static constexpr const char* kChatMl =
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + "
      "'<|im_end|>\\n' "
      "}}{% endfor %}{{ '<|im_start|>assistant\\n' }}";

  explicit FakeTokenizer(std::string chat_template = kChatMl, bool special = true, bool bos = false)
      : template_(std::move(chat_template)), special_(special), bos_(bos) {}

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts, bool) const override {
    std::vector<std::int32_t> ids;
    std::string run;  // of text without special tokens
    const auto flush = [&] {
      const auto more = encode(run, SpecialTokens::kAsText);
      ids.insert(ids.end(), more.begin(), more.end());
      run.clear();
    };
    for (const TextPart& part : parts) {
      for (std::size_t i = 0; i < part.text.size();) {
        std::size_t length = 0;
        for (const char* token : {"<|im_start|>", "<|im_end|>", "<s>"}) {
          if (part.special == SpecialTokens::kParse && id_of_special(token) &&
              part.text.substr(i).starts_with(token)) {
            flush();
            ids.push_back(*id_of_special(token));
            length = std::string_view(token).size();
          }
        }
        if (length == 0) run.push_back(part.text[i]);
        i += std::max<std::size_t>(length, 1);
      }
    }
    flush();
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 256) {
        text.push_back(static_cast<char>(id));
      } else {
        text += id == kStart ? "<|im_start|>" : id == kEnd ? "<|im_end|>" : "<s>";
      }
    }
    return text;
  }
  std::int32_t n_vocab() const override { return 259; }
  std::optional<std::int32_t> eos() const override { return kEnd; }
  std::optional<std::int32_t> bos() const override { return kBos; }
  bool adds_bos() const override { return bos_; }
  std::optional<std::int32_t> id_of_special(std::string_view text) const override {
    if (special_ && text == "<|im_start|>") return kStart;
    if (special_ && text == "<|im_end|>") return kEnd;
    if (text == "<s>") return kBos;
    return std::nullopt;
  }
  const std::string& chat_template() const override { return template_; }

 private:
  std::string template_;
  bool special_;
  bool bos_;
};

}  // namespace kvscope
