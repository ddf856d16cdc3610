#include "datasets/prompts/prompts.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datasets/chat/chat_template.h"
#include "datasets/json/json_file.h"
#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw DataError(where + ": " + what +
                  " (wanted: {\"prompt\": \"…\"} or {\"messages\": [{\"role\": \"user\", "
                  "\"content\": \"…\"}]})");
}

std::string content_text(const json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) fail(where, "\"content\" is neither text nor a list of parts");
  std::string text;
  for (const json& part : content) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) {
      fail(where, "a part of \"content\" is no text; images and sounds cannot be run");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

std::vector<ChatMessage> read_messages(const json& row, const std::string& where) {
  if (!row.is_object()) fail(where, "not an object");
  if (row.contains("prompt") == row.contains("messages")) {
    fail(where, "one of \"prompt\" and \"messages\" is needed");
  }
  if (row.contains("prompt")) return {{"user", content_text(row["prompt"], where)}};
  const json& list = row["messages"];
  if (!list.is_array() || list.empty()) fail(where, "\"messages\" is no list with an element");
  std::vector<ChatMessage> messages;
  for (const json& message : list) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content")) {
      fail(where, "a message has no \"role\" or no \"content\"");
    }
    messages.push_back(
        {message["role"].get<std::string>(), content_text(message["content"], where)});
    for (const char c : messages.back().role) {
      if (!(('a' <= c && c <= 'z') || c == '_')) fail(where, "a role is a lower-case word");
    }
  }
  return messages;
}

Sample read_sample(std::vector<ChatMessage> messages, const ChatTemplate& chat,
                   const std::string& where) {
  std::string answer_prefix;
  if (messages.back().role == "assistant") {
    answer_prefix = std::move(messages.back().content);
    messages.pop_back();
  }
  if (messages.empty()) fail(where, "nobody asks anything before the assistant's message");
  Sample sample;
  try {
    sample.prompt_ids = chat.render_messages(messages);
  } catch (const DataError& error) {  // turns that the template does not have
    throw DataError(where + ": " + error.what());
  }
  sample.prefix_ids = chat.assistant_header(answer_prefix);
  if (messages.size() > 1) {
    // The last message with its turn's header, all of it: what is kept must not tell who speaks.
    const auto before = std::span(messages).first(messages.size() - 1);
    const std::size_t begin = chat.render_closed(before).size();
    // Nothing but a begin token: the system message belongs to the first user's turn.
    if (begin > 1) sample.question_begin = static_cast<int>(begin);
  }
  return sample;
}

}  // namespace

Dataset load_prompts(const std::filesystem::path& file, const PromptOptions& options,
                     const Tokenizer& tokenizer) {
  const std::string bytes = read_file(file);
  const ChatTemplate chat = chat_for(tokenizer);
  Dataset data;
  data.name = file.stem().string();
  data.version = "1 prompts template=" + std::string(chat.name());
  if (!chat.notice().empty()) data.notes.push_back(chat.notice());
  std::set<std::string> keys;
  std::size_t number = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = std::string_view(bytes).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (options.limit > 0 && data.samples.size() == static_cast<std::size_t>(options.limit)) break;
    const std::string where = file.string() + ", line " + std::to_string(number);
    json row;
    try {
      row = parse_json(line, where);
    } catch (const DataError&) {
      fail(where, "not valid JSON");
    }
    Sample sample = read_sample(read_messages(row, where), chat, where);
    if (sample.prompt_ids.size() < 2) fail(where, "the prompt is empty");
    sample.key = "line=" + std::to_string(number);
    if (row.contains("id") && row["id"].is_string()) sample.key = row["id"].get<std::string>();
    if (!keys.insert(sample.key).second)
      fail(where, "the id " + sample.key + " stands there twice");
    sample.cluster_key = sample.key;
    sample.max_new_tokens = options.max_new_tokens;
    sample.input_sha256 = input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids);
    data.samples.push_back(std::move(sample));
  }
  if (data.samples.empty()) throw DataError(file.string() + " holds no prompt");
  return data;
}

}  // namespace kvscope
