// Wraps a user's text in the turns that an instruction-tuned model was trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

enum class ChatFamily { kChatMl, kPlain };

struct ChatMessage {
  std::string role;  // system, user, assistant or another word
  std::string content;
};

// The prompt is cut in two where eviction policies select: everything up to the question, and what
// is fed after the selection. Only the template's own tokens become special tokens; "<|im_end|>" in
// a user's text stays text. Keeps a reference to the tokenizer.
class ChatTemplate {
 public:
  ChatTemplate(const Tokenizer& tokenizer, ChatFamily family, std::string system_message);

  // System turn (when the template has a default one), the user's header, and `text`; the turn is
  // left open. Decoded, the prompt ends with exactly `text`.
  std::vector<std::int32_t> render_user(std::string_view text) const;

  // Several turns, the last one left open. The template's default system message comes first unless
  // one is given. In the plain form: the contents, an empty line between two.
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

  ChatFamily family() const { return family_; }
  std::string_view name() const { return family_ == ChatFamily::kChatMl ? "chatml" : "plain"; }
  const std::string& system_message() const { return system_message_; }  // empty: no system turn
  // Ends the assistant's turn; a generator stops there. The plain form has the model's end-of-text
  // token, if any.
  std::optional<std::int32_t> turn_end() const { return turn_end_; }
  // One line for the user when the model's own template was not used; else empty.
  const std::string& notice() const { return notice_; }

 private:
  friend ChatTemplate chat_for(const Tokenizer& tokenizer);

  void append_turn(std::vector<std::int32_t>& ids, std::string_view role,
                   std::string_view content) const;
  void append_text(std::vector<std::int32_t>& ids, std::string_view text) const;

  const Tokenizer& tokenizer_;
  ChatFamily family_;
  std::string system_message_;
  std::string notice_;
  std::int32_t turn_start_ = -1;
  std::optional<std::int32_t> turn_end_;
};

// ChatML (SmolLM2, Qwen) when the model's file has its two tokens and its template, if there is
// one, uses them; the plain form with a notice otherwise. The default system message is read from
// the template.
ChatTemplate chat_for(const Tokenizer& tokenizer);

// The literal text between "<|im_start|>system\n" and "<|im_end|>" in a Jinja template; empty if
// there is none. Both a line feed and Jinja's escape \n are understood.
std::string default_system_message(std::string_view jinja_template);

}  // namespace kvscope
