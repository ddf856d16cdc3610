#include "runner/tokenizer/with_chat_template.h"

#include <utility>

namespace kvscope {
namespace {

class WithChatTemplate final : public Tokenizer {
 public:
  WithChatTemplate(std::unique_ptr<Tokenizer> inner, std::string chat_template)
      : inner_(std::move(inner)), chat_template_(std::move(chat_template)) {}

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const override {
    return inner_->encode(text, special);
  }
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts,
                                         bool continues) const override {
    return inner_->encode_parts(parts, continues);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return inner_->decode(ids);
  }
  std::int32_t n_vocab() const override { return inner_->n_vocab(); }
  std::optional<std::int32_t> eos() const override { return inner_->eos(); }
  std::optional<std::int32_t> bos() const override { return inner_->bos(); }
  bool adds_bos() const override { return inner_->adds_bos(); }
  std::optional<std::int32_t> id_of_special(std::string_view text) const override {
    return inner_->id_of_special(text);
  }
  const std::string& chat_template() const override { return chat_template_; }

 private:
  std::unique_ptr<Tokenizer> inner_;
  std::string chat_template_;
};

}  // namespace

std::unique_ptr<Tokenizer> with_chat_template(std::unique_ptr<Tokenizer> tokenizer,
                                              std::string chat_template) {
  return std::make_unique<WithChatTemplate>(std::move(tokenizer), std::move(chat_template));
}

}  // namespace kvscope
