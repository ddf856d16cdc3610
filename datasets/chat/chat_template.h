// Wraps a user's text in the turns that an instruction-tuned model was trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/chat/chat_form.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct ChatMessage {
  std::string role;  // system, user, assistant; in ChatML another word too
  std::string content;
};

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

  // Several turns, the last one left open. The template's default system message comes first unless
  // one is given. In the plain form: the contents, an empty line between two. Throws DataError for
  // turns that the form does not have.
  std::vector<std::int32_t> render_messages(std::span<const ChatMessage> messages) const;
  // The same with the last turn closed, so that another one can follow.
  std::vector<std::int32_t> render_closed(std::span<const ChatMessage> messages) const;

  // Closes the assistant's turn and opens the user's with `text`: what follows an answer. Left
  // open.
  std::vector<std::int32_t> next_user_turn(std::string_view text) const;

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

  class Turns;  // a chat's text, part by part

  std::string filled(const char* text) const;
  std::string header_text(std::string_view answer_prefix) const;
  Turns turns(std::span<const ChatMessage> messages, bool closed) const;
  std::vector<std::int32_t> begun(std::vector<std::int32_t> ids) const;

  const Tokenizer& tokenizer_;
  const ChatForm* form_;
  std::string system_message_;
  std::string notice_;
  std::string begin_text_,
      eos_text_;  // the begin token's, where the template has it, and the end's
  std::optional<std::int32_t> begin_;  // id to put first that no text stands for
  std::optional<std::int32_t> turn_end_;
};

// The form that the model's chat template is recognised as, or that it names ("none": plain text).
// Without a template, ChatML where the vocabulary has its tokens and else plain text with a notice.
// Throws DataError for a template that is not recognised.
ChatTemplate chat_for(const Tokenizer& tokenizer);

// Plain text whatever the model's template is.
ChatTemplate plain_chat(const Tokenizer& tokenizer);

}  // namespace kvscope
