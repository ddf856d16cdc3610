#include "runner/tokenizer/tokenizer_settings.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/json_fields.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// "<s>", or an object with its text as "content".
std::optional<std::string> token_text(const Json& config, const char* key) {
  const Json* token = find_member(config, key);
  if (token == nullptr) return std::nullopt;
  if (token->is_object()) return required_string(*token, "content");
  if (!token->is_string()) throw DataError("'" + std::string(key) + "' is no token");
  return token->get<std::string>();
}

std::string template_text(const Json& config) {
  const Json* value = find_member(config, "chat_template");
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  if (value->is_array()) {
    for (const Json& named : *value) {
      if (string_or(named, "name", "") == "default") return required_string(named, "template");
    }
    if (!value->empty()) throw DataError("'chat_template' lists none that is named 'default'");
    return {};
  }
  throw DataError("'chat_template' is neither a string nor a list");
}

void read_tokenizer_config(const Json& config, TokenizerSettings& settings) {
  settings.bos_token = token_text(config, "bos_token");
  settings.eos_token = token_text(config, "eos_token");
  if (find_member(config, "add_bos_token") != nullptr) {
    settings.adds_bos = bool_or(config, "add_bos_token", false);
  }
  settings.chat_template = template_text(config);
  const Json* added = find_member(config, "added_tokens_decoder");
  if (added == nullptr || !added->is_object()) return;
  for (const auto& [key, token] : added->items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
      throw DataError("'added_tokens_decoder' has a key " + kvscope::quoted(key) +
                      " that is no token id");
    }
    settings.added_tokens.push_back(read_added_token(token, id));
  }
}

std::optional<std::int32_t> config_id(const Json& config, const char* key) {
  const Json* value = find_member(config, key);
  if (value != nullptr && value->is_array()) value = value->empty() ? nullptr : &value->front();
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return token_id_of(*value, kvscope::quoted(key));
}

void read_model_config(const Json& config, TokenizerSettings& settings) {
  settings.bos_id = config_id(config, "bos_token_id");
  settings.eos_id = config_id(config, "eos_token_id");
}

void read_if_there(const fs::path& path, TokenizerSettings& settings,
                   void (*read)(const Json&, TokenizerSettings&)) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const Json json = read_json_file(path);
  try {
    read(json, settings);
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || fs::is_directory(path) || !(text << in.rdbuf())) {
    throw IoError(path.string() + ": cannot be read");
  }
  return text.str();
}

Json read_json_file(const fs::path& path) {
  Json json = Json::parse(read_file(path), nullptr, false);
  if (!json.is_object()) throw DataError(path.string() + ": is no JSON object; fetch it again");
  return json;
}

AddedToken read_added_token(const Json& description, std::int32_t id) {
  AddedToken token;
  token.text = required_string(description, "content");
  token.id = id;
  token.special = bool_or(description, "special", false);
  token.left_strip = bool_or(description, "lstrip", false);
  token.right_strip = bool_or(description, "rstrip", false);
  token.single_word = bool_or(description, "single_word", false);
  token.normalized = bool_or(description, "normalized", !token.special);
  return token;
}

TokenizerSettings read_settings(const fs::path& folder) {
  TokenizerSettings settings;
  read_if_there(folder / "tokenizer_config.json", settings, read_tokenizer_config);
  read_if_there(folder / "config.json", settings, read_model_config);
  std::error_code ignored;
  const fs::path jinja = folder / "chat_template.jinja";
  if (fs::exists(jinja, ignored)) settings.chat_template = read_file(jinja);
  return settings;
}

}  // namespace kvscope
