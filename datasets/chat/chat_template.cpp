#include "datasets/chat/chat_template.h"

#include <utility>

namespace kvscope {
namespace {

constexpr std::string_view kTurnStart = "<|im_start|>";
constexpr std::string_view kTurnEnd = "<|im_end|>";

// Jinja's escapes that occur in system messages.
std::string unescape(std::string_view literal) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] == '\\' && i + 1 < literal.size()) {
      const char c = literal[++i];
      text.push_back(c == 'n' ? '\n' : c == 't' ? '\t' : c);
    } else {
      text.push_back(literal[i]);
    }
  }
  return text;
}

// True if a string literal of the template ends inside `text`: then its rest comes from a variable.
bool leaves_literal(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '\'' || text.substr(i, 2) == "{{" || text.substr(i, 2) == "{%") {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string default_system_message(std::string_view jinja_template) {
  const std::string opening = std::string(kTurnStart) + "system";
  for (std::size_t at = jinja_template.find(opening); at != std::string_view::npos;
       at = jinja_template.find(opening, at + 1)) {
    std::string_view rest = jinja_template.substr(at + opening.size());
    if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    const std::size_t end = rest.find(kTurnEnd);
    if (end == std::string_view::npos) continue;
    const std::string_view literal = rest.substr(0, end);
    if (!literal.empty() && !leaves_literal(literal)) return unescape(literal);
  }
  return {};
}

ChatTemplate::ChatTemplate(const Tokenizer& tokenizer, ChatFamily family,
                           std::string system_message)
    : tokenizer_(tokenizer), family_(family), system_message_(std::move(system_message)) {
  if (family_ == ChatFamily::kChatMl) {
    turn_start_ = tokenizer.id_of_special(kTurnStart).value();
    turn_end_ = tokenizer.id_of_special(kTurnEnd);
  } else {
    turn_end_ = tokenizer.eos();
  }
}

void ChatTemplate::append_text(std::vector<std::int32_t>& ids, std::string_view text) const {
  const auto more = tokenizer_.encode(text, SpecialTokens::kAsText);
  ids.insert(ids.end(), more.begin(), more.end());
}

std::vector<std::int32_t> ChatTemplate::render_user(std::string_view text) const {
  std::vector<std::int32_t> ids;
  if (tokenizer_.adds_bos() && tokenizer_.bos()) ids.push_back(*tokenizer_.bos());
  if (family_ == ChatFamily::kPlain) {
    append_text(ids, text);
    return ids;
  }
  if (!system_message_.empty()) {
    ids.push_back(turn_start_);
    append_text(ids, "system\n" + system_message_);
    ids.push_back(*turn_end_);
    append_text(ids, "\n");
  }
  ids.push_back(turn_start_);
  // In one piece: line feeds at the text's start merge with the header's, as they do when the whole
  // chat is tokenised.
  append_text(ids, "user\n" + std::string(text));
  return ids;
}

void ChatTemplate::append_turn(std::vector<std::int32_t>& ids, std::string_view role,
                               std::string_view content) const {
  ids.push_back(turn_start_);
  append_text(ids, std::string(role).append("\n").append(content));
}

std::vector<std::int32_t> ChatTemplate::render_closed(std::span<const ChatMessage> messages) const {
  std::vector<std::int32_t> ids;
  if (tokenizer_.adds_bos() && tokenizer_.bos()) ids.push_back(*tokenizer_.bos());
  if (family_ == ChatFamily::kPlain) {
    for (const ChatMessage& message : messages) append_text(ids, message.content + "\n\n");
    return ids;
  }
  const auto close = [&] {
    ids.push_back(*turn_end_);
    append_text(ids, "\n");
  };
  const bool has_system = !messages.empty() && messages.front().role == "system";
  if (!system_message_.empty() && !has_system) {
    append_turn(ids, "system", system_message_);
    close();
  }
  for (const ChatMessage& message : messages) {
    append_turn(ids, message.role, message.content);
    close();
  }
  return ids;
}

std::vector<std::int32_t> ChatTemplate::render_messages(
    std::span<const ChatMessage> messages) const {
  if (messages.size() == 1 && messages.front().role == "user") {
    return render_user(messages.front().content);
  }
  std::vector<std::int32_t> ids = render_closed(messages.first(messages.size() - 1));
  if (family_ == ChatFamily::kPlain) {
    append_text(ids, messages.back().content);
  } else {
    append_turn(ids, messages.back().role, messages.back().content);
  }
  return ids;
}

std::vector<std::int32_t> ChatTemplate::next_user_turn(std::string_view text) const {
  std::vector<std::int32_t> ids;
  if (family_ == ChatFamily::kPlain) {
    append_text(ids, std::string("\n\n").append(text));
    return ids;
  }
  ids.push_back(*turn_end_);
  append_text(ids, "\n");
  append_turn(ids, "user", text);
  return ids;
}

std::vector<std::int32_t> ChatTemplate::assistant_header(std::string_view answer_prefix) const {
  std::vector<std::int32_t> ids;
  if (family_ == ChatFamily::kPlain) {
    if (!answer_prefix.empty()) append_text(ids, std::string(" ").append(answer_prefix));
    return ids;
  }
  ids.push_back(*turn_end_);
  append_text(ids, "\n");
  ids.push_back(turn_start_);
  append_text(ids, "assistant\n" + std::string(answer_prefix));
  return ids;
}

std::vector<std::int32_t> ChatTemplate::answer_ids(std::string_view answer,
                                                   std::string_view answer_prefix) const {
  const bool new_turn = family_ == ChatFamily::kChatMl && answer_prefix.empty();
  std::vector<std::int32_t> ids;
  if (!answer.empty()) append_text(ids, std::string(new_turn ? "" : " ").append(answer));
  // An empty answer is a turn that ends at once.
  if (ids.empty() && turn_end_) ids.push_back(*turn_end_);
  return ids;
}

ChatTemplate chat_for(const Tokenizer& tokenizer) {
  const std::string& jinja = tokenizer.chat_template();
  const bool has_tokens = tokenizer.id_of_special(kTurnStart).has_value() &&
                          tokenizer.id_of_special(kTurnEnd).has_value();
  if (has_tokens && (jinja.empty() || jinja.find(kTurnStart) != std::string::npos)) {
    return ChatTemplate(tokenizer, ChatFamily::kChatMl, default_system_message(jinja));
  }
  ChatTemplate plain(tokenizer, ChatFamily::kPlain, {});
  plain.notice_ =
      jinja.empty()
          ? "the model's file has no chat template: prompts are plain text"
          : "the model's chat template is not ChatML: prompts are plain text without turns";
  return plain;
}

}  // namespace kvscope
