#include "datasets/chat/chat_template.h"

#include <algorithm>
#include <array>
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

}  // namespace

ChatTemplate::ChatTemplate(const Tokenizer& tokenizer, const ChatForm* form,
                           std::string system_message, bool begins)
    : tokenizer_(tokenizer), form_(form), system_message_(std::move(system_message)) {
  if (form_ == nullptr) {
    turn_end_ = tokenizer.eos();
  } else {
    if (!system_message_.empty() && form_->opening_with_system == nullptr) {
      throw DataError("chat template '" + std::string(form_->name) + "' has no system message");
    }
    const std::string eos = token_text(tokenizer, tokenizer.eos());
    opening_ = fill_chat(
        system_message_.empty() ? form_->opening : form_->opening_with_system,
        form_->trim == ChatTrim::kMessages ? trimmed(system_message_) : system_message_, eos);
    closing_ = fill_chat(form_->closing, {}, eos);
    const std::string end = fill_chat(form_->turn_end, {}, eos);
    turn_end_ = end == eos ? tokenizer.eos() : tokenizer.id_of_special(end);
    if (!turn_end_) {
      throw DataError("chat template '" + std::string(form_->name) + "' ends a turn with " +
                      (end.empty() ? "the end token" : end) +
                      ", which the tokenizer does not have; name another with --chat-template, or "
                      "none");
    }
  }
  if (!begins || !tokenizer.bos()) return;
  // As text, the token is part of what is encoded, as it is in a template's output.
  const std::string begin = token_text(tokenizer, tokenizer.bos());
  if (tokenizer.id_of_special(begin) == tokenizer.bos()) {
    opening_.insert(0, begin);
  } else {
    begin_ = tokenizer.bos();
  }
}

std::string_view ChatTemplate::rendered(std::string_view text) const {
  if (form_ == nullptr || form_->trim == ChatTrim::kNone) return text;
  text.remove_suffix(trailing_white_space(text));
  if (form_->trim == ChatTrim::kJoined && !system_message_.empty()) return text;
  text.remove_prefix(leading_white_space(text));
  return text;
}

std::vector<std::int32_t> ChatTemplate::render_user(std::string_view text) const {
  // In one piece: line feeds at the text's start merge with the header's, as they do when the whole
  // chat is tokenised.
  const std::array<TextPart, 2> parts = {TextPart{opening_, SpecialTokens::kParse},
                                         TextPart{rendered(text), SpecialTokens::kAsText}};
  std::vector<std::int32_t> ids = tokenizer_.encode_parts(parts, false);
  if (begin_) ids.insert(ids.begin(), *begin_);
  return ids;
}

// Without the closing of the user's turn.
std::string ChatTemplate::header_text(std::string_view answer_prefix) const {
  if (answer_prefix.empty()) return {};
  const bool spaced = form_ == nullptr || form_->spaced_answer;
  return std::string(spaced ? " " : "").append(answer_prefix);
}

std::vector<std::int32_t> ChatTemplate::assistant_header(std::string_view answer_prefix) const {
  const std::string prefix = header_text(answer_prefix);
  const std::array<TextPart, 2> parts = {TextPart{closing_, SpecialTokens::kParse},
                                         TextPart{prefix, SpecialTokens::kAsText}};
  return tokenizer_.encode_parts(parts, true);
}

std::vector<std::int32_t> ChatTemplate::answer_ids(std::string_view answer,
                                                   std::string_view answer_prefix) const {
  // An empty answer is a turn that ends at once.
  if (answer.empty()) {
    return turn_end_ ? std::vector<std::int32_t>{*turn_end_} : std::vector<std::int32_t>{};
  }
  const bool new_turn = form_ != nullptr && answer_prefix.empty() && !form_->spaced_answer;
  const std::string text = std::string(new_turn ? "" : " ").append(answer);
  const std::string before = header_text(answer_prefix);
  const std::array<TextPart, 3> parts = {TextPart{closing_, SpecialTokens::kParse},
                                         TextPart{before, SpecialTokens::kAsText},
                                         TextPart{text, SpecialTokens::kAsText}};
  // What the whole turn has behind its header. Where the answer's start would merge into the
  // header, the answer is encoded as a continuation of its own.
  std::vector<std::int32_t> ids = tokenizer_.encode_parts(parts, true);
  const std::vector<std::int32_t> header = assistant_header(answer_prefix);
  if (ids.size() > header.size() && std::equal(header.begin(), header.end(), ids.begin())) {
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(header.size()));
  } else {
    ids = tokenizer_.encode_parts(std::span(parts).last(1), true);
  }
  if (ids.empty() && turn_end_) ids.push_back(*turn_end_);
  return ids;
}

ChatTemplate chat_for(const Tokenizer& tokenizer) {
  const std::string& jinja = tokenizer.chat_template();
  if (jinja == kNoTemplate) return ChatTemplate(tokenizer, nullptr, {}, tokenizer.adds_bos());
  if (const ChatForm* named = find_chat_form(jinja)) {
    return ChatTemplate(tokenizer, named, {}, tokenizer.adds_bos());
  }
  if (jinja.empty()) {
    const ChatForm* chatml = find_chat_form("chatml");
    if (tokenizer.id_of_special("<|im_start|>") && tokenizer.id_of_special(chatml->turn_end)) {
      return ChatTemplate(tokenizer, chatml, {}, tokenizer.adds_bos());
    }
    ChatTemplate plain(tokenizer, nullptr, {}, tokenizer.adds_bos());
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
