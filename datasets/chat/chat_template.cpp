#include "datasets/chat/chat_template.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "runner/base/error.h"
#include "runner/tokenizer/characters.h"

namespace kvscope {
namespace {

constexpr std::string_view kNoTemplate = "none";  // as --chat-template says it

std::string token_text(const Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? tokenizer.decode({&*id, 1}) : std::string();
}

std::string_view trimmed(std::string_view text) {
  text.remove_suffix(trailing_white_space(text));
  text.remove_prefix(leading_white_space(text));
  return text;
}

// A form that has turns of any role writes them all alike.
std::string head_of_role(const ChatForm& form, const std::string& role) {
  constexpr std::string_view kPlace = "user";
  std::string head = form.next_user;
  return head.replace(head.find(kPlace), kPlace.size(), role);
}

}  // namespace

class ChatTemplate::Turns {
 public:
  Turns() = default;
  Turns(Turns&&) = default;
  Turns(const Turns&) = delete;
  void mark(std::string text) { add(std::move(text), SpecialTokens::kParse); }  // the template's
  void content(std::string_view text) { add(std::string(text), SpecialTokens::kAsText); }
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, bool continues) const {
    return tokenizer.encode_parts(parts_, continues);
  }

 private:
  void add(std::string text, SpecialTokens special) {
    texts_.push_back(std::move(text));
    parts_.push_back({texts_.back(), special});
  }

  std::deque<std::string> texts_;  // stay where they are
  std::vector<TextPart> parts_;
};

ChatTemplate::ChatTemplate(const Tokenizer& tokenizer, const ChatForm* form,
                           std::string system_message, bool begins)
    : tokenizer_(tokenizer),
      form_(form),
      system_message_(std::move(system_message)),
      eos_text_(token_text(tokenizer, tokenizer.eos())) {
  if (begins && tokenizer.bos()) {
    // As text, the token is part of what is encoded, as it is in a template's output.
    begin_text_ = token_text(tokenizer, tokenizer.bos());
    if (tokenizer.id_of_special(begin_text_) != tokenizer.bos()) {
      begin_text_.clear();
      begin_ = tokenizer.bos();
    }
  }
  if (form_ == nullptr) {
    turn_end_ = tokenizer.eos();
    return;
  }
  if (!system_message_.empty() && form_->opening_with_system == nullptr) {
    throw DataError("chat template '" + std::string(form_->name) + "' has no system message");
  }
  const std::string end = filled(form_->turn_end);
  turn_end_ = end == eos_text_ ? tokenizer.eos() : tokenizer.id_of_special(end);
  if (!turn_end_) {
    throw DataError("chat template '" + std::string(form_->name) + "' ends a turn with " +
                    (end.empty() ? "the end token" : end) +
                    ", which the tokenizer does not have; name another with --chat-template, or "
                    "none");
  }
}

std::string ChatTemplate::filled(const char* text) const {
  return fill_chat(text, {}, begin_text_, eos_text_);
}

std::string_view ChatTemplate::rendered(std::string_view text) const {
  if (form_ == nullptr || form_->trim == ChatTrim::kNone) return text;
  text.remove_suffix(trailing_white_space(text));
  if (form_->trim == ChatTrim::kJoined && !system_message_.empty()) return text;
  text.remove_prefix(leading_white_space(text));
  return text;
}

ChatTemplate::Turns ChatTemplate::turns(std::span<const ChatMessage> messages, bool closed) const {
  Turns turns;
  turns.mark(begin_text_);
  const auto is_open = [&](std::size_t i) { return i + 1 == messages.size() && !closed; };
  if (form_ == nullptr) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      turns.content(messages[i].content);
      if (!is_open(i)) turns.content("\n\n");
    }
    return turns;
  }
  std::string system = system_message_;
  const bool given = !messages.empty() && messages.front().role == "system";
  if (given) system = messages.front().content;
  std::size_t at = given ? 1 : 0;
  if (form_->any_role) {
    at = 0;
    if (!given && !system.empty()) {
      turns.mark(head_of_role(*form_, "system"));
      turns.content(system);
      turns.mark(filled(form_->user_tail));
    }
    for (; at < messages.size(); ++at) {
      turns.mark(head_of_role(*form_, messages[at].role));
      turns.content(messages[at].content);
      if (!is_open(at)) turns.mark(filled(form_->user_tail));
    }
    return turns;
  }
  const std::string form_name(form_->name);
  if (!system.empty() && form_->opening_with_system == nullptr) {
    throw DataError("chat template '" + form_name + "' has no system message");
  }
  for (bool first = true; at < messages.size(); ++at) {
    const bool user = (at % 2 == 0) != given;
    if (messages[at].role != (user ? "user" : "assistant")) {
      throw DataError("chat template '" + form_name +
                      "' has turns of user and assistant, one after the other; '" +
                      messages[at].role + "' stands where none can");
    }
    if (first) {
      const std::string_view opening = system.empty() ? form_->opening : form_->opening_with_system;
      const std::size_t place = opening.find("{system}");
      turns.mark(filled(std::string(opening.substr(0, place)).c_str()));
      if (place != std::string_view::npos) {
        turns.content(form_->trim == ChatTrim::kMessages ? trimmed(system)
                                                         : std::string_view(system));
        turns.mark(filled(opening.substr(place + std::string_view("{system}").size()).data()));
      }
    } else if (user) {
      turns.mark(filled(form_->next_user));
    } else {
      turns.mark(filled(form_->assistant_head));
      if (form_->spaced_answer) turns.content(" ");
    }
    std::string_view content = messages[at].content;
    if (first && form_->trim == ChatTrim::kJoined && !system.empty()) {
      content.remove_suffix(trailing_white_space(content));
    } else if (form_->trim != ChatTrim::kNone) {
      content = trimmed(content);
    }
    turns.content(content);
    if (!is_open(at)) turns.mark(filled(user ? form_->user_tail : form_->assistant_tail));
    first = false;
  }
  return turns;
}

std::vector<std::int32_t> ChatTemplate::begun(std::vector<std::int32_t> ids) const {
  if (begin_) ids.insert(ids.begin(), *begin_);
  return ids;
}

std::vector<std::int32_t> ChatTemplate::render_messages(
    std::span<const ChatMessage> messages) const {
  return begun(turns(messages, false).encode(tokenizer_, false));
}

std::vector<std::int32_t> ChatTemplate::render_closed(std::span<const ChatMessage> messages) const {
  return begun(turns(messages, true).encode(tokenizer_, false));
}

// In one piece: line feeds at the text's start merge with the header's, as they do when the whole
// chat is tokenised.
std::vector<std::int32_t> ChatTemplate::render_user(std::string_view text) const {
  const ChatMessage message{"user", std::string(text)};
  return render_messages({&message, 1});
}

std::vector<std::int32_t> ChatTemplate::next_user_turn(std::string_view text) const {
  Turns turns;
  if (form_ == nullptr) {
    turns.content(std::string("\n\n").append(text));
  } else {
    turns.mark(filled(form_->assistant_tail) + filled(form_->next_user));
    turns.content(form_->trim == ChatTrim::kNone ? text : trimmed(text));
  }
  return turns.encode(tokenizer_, true);
}

// Without the closing of the user's turn.
std::string ChatTemplate::header_text(std::string_view answer_prefix) const {
  if (answer_prefix.empty()) return {};
  const bool spaced = form_ == nullptr || form_->spaced_answer;
  return std::string(spaced ? " " : "").append(answer_prefix);
}

std::vector<std::int32_t> ChatTemplate::assistant_header(std::string_view answer_prefix) const {
  Turns turns;
  if (form_ != nullptr) turns.mark(filled(form_->user_tail) + filled(form_->assistant_head));
  turns.content(header_text(answer_prefix));
  return turns.encode(tokenizer_, true);
}

std::vector<std::int32_t> ChatTemplate::answer_ids(std::string_view answer,
                                                   std::string_view answer_prefix) const {
  // An empty answer is a turn that ends at once.
  if (answer.empty()) {
    return turn_end_ ? std::vector<std::int32_t>{*turn_end_} : std::vector<std::int32_t>{};
  }
  const bool new_turn = form_ != nullptr && answer_prefix.empty() && !form_->spaced_answer;
  const std::string text = std::string(new_turn ? "" : " ").append(answer);
  Turns whole;
  if (form_ != nullptr) whole.mark(filled(form_->user_tail) + filled(form_->assistant_head));
  whole.content(header_text(answer_prefix));
  whole.content(text);
  // What the whole turn has behind its header. Where the answer's start would merge into the
  // header, the answer is encoded as a continuation of its own.
  std::vector<std::int32_t> ids = whole.encode(tokenizer_, true);
  const std::vector<std::int32_t> header = assistant_header(answer_prefix);
  if (ids.size() > header.size() && std::equal(header.begin(), header.end(), ids.begin())) {
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(header.size()));
  } else {
    Turns alone;
    alone.content(text);
    ids = alone.encode(tokenizer_, true);
  }
  if (ids.empty() && turn_end_) ids.push_back(*turn_end_);
  return ids;
}

ChatTemplate plain_chat(const Tokenizer& tokenizer) {
  return ChatTemplate(tokenizer, nullptr, {}, tokenizer.adds_bos());
}

ChatTemplate chat_for(const Tokenizer& tokenizer) {
  const std::string& jinja = tokenizer.chat_template();
  if (jinja == kNoTemplate) return plain_chat(tokenizer);
  if (const ChatForm* named = find_chat_form(jinja)) {
    return ChatTemplate(tokenizer, named, {}, tokenizer.adds_bos());
  }
  if (jinja.empty()) {
    const ChatForm* chatml = find_chat_form("chatml");
    if (tokenizer.id_of_special("<|im_start|>") && tokenizer.id_of_special(chatml->turn_end)) {
      return ChatTemplate(tokenizer, chatml, {}, tokenizer.adds_bos());
    }
    ChatTemplate plain = plain_chat(tokenizer);
    plain.notice_ = "the model's file has no chat template: prompts are plain text";
    return plain;
  }
  const ChatForm* form = recognise_chat(jinja);
  if (form == nullptr) {
    throw DataError("the model's chat template is none that is known (" + known_chat_forms() +
                    "); name one with --chat-template, or none for plain text");
  }
  return ChatTemplate(tokenizer, form, default_system_message(jinja),
                      jinja.find("bos_token") != std::string::npos);
}

}  // namespace kvscope
