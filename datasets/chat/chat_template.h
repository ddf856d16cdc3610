// Wraps a user's text in the turns that an instruction-tuned model was trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/chat/chat_form.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// The prompt is cut in two where eviction policies select: everything up to the question, and what
// is fed after the selection. Only the template's own tokens become special tokens; "<|im_end|>" in
// a user's text stays text. Keeps a reference to the tokenizer.
class ChatTemplate {
 public:
  // form: null for plain text. begins: the template itself puts the begin-of-text token first.
  // Throws DataError where the form has no system messages and one is given, or the tokenizer lacks
  // the token that ends a turn.
  ChatTemplate(const Tokenizer& tokenizer, const ChatForm* form, std::string system_message,
               bool begins);

  // System turn (when there is a system message), the user's header, and `text`; the turn is left
  // open. Decoded, the prompt ends with exactly rendered(text).
  std::vector<std::int32_t> render_user(std::string_view text) const;

  // Closes the user's turn, opens the assistant's and starts its answer with `answer_prefix`. In
  // the plain form this is a space and the prefix, or nothing when the prefix is empty.
  std::vector<std::int32_t> assistant_header(std::string_view answer_prefix = {}) const;

  // The answer as it continues assistant_header(answer_prefix): after a started sentence it begins
  // with a space.
  std::vector<std::int32_t> answer_ids(std::string_view answer,
                                       std::string_view answer_prefix) const;

  std::string_view name() const { return form_ == nullptr ? "plain" : form_->name; }
  // What is left of a text: some families leave out the white space at its ends.
  std::string_view rendered(std::string_view text) const;
  const std::string& system_message() const { return system_message_; }  // empty: no system turn
  // Ends the assistant's turn; a generator stops there. The plain form has the model's end-of-text
  // token, if any.
  std::optional<std::int32_t> turn_end() const { return turn_end_; }
  // One line for the user when there is no template; else empty.
  const std::string& notice() const { return notice_; }

 private:
  friend ChatTemplate chat_for(const Tokenizer& tokenizer);

  std::string header_text(std::string_view answer_prefix) const;

  const Tokenizer& tokenizer_;
  const ChatForm* form_;
  std::string system_message_;
  std::string notice_;
  std::string opening_, closing_;      // around the user's text
  std::optional<std::int32_t> begin_;  // id to put first that no text stands for
  std::optional<std::int32_t> turn_end_;
};

// The form that the model's chat template is recognised as, or that it names ("none": plain text).
// Without a template, ChatML where the vocabulary has its tokens and else plain text with a notice.
// Throws DataError for a template that is not recognised.
ChatTemplate chat_for(const Tokenizer& tokenizer);

}  // namespace kvscope
