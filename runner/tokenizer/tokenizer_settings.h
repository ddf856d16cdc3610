// What stands beside a Hugging Face tokenizer: tokenizer_config.json, config.json,
// chat_template.jinja.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runner/tokenizer/added_tokens.h"

namespace kvscope {

struct TokenizerSettings {
  std::optional<std::string> bos_token, eos_token;  // tokenizer_config.json
  std::optional<std::int32_t> bos_id, eos_id;       // config.json; the first of several
  std::optional<bool> adds_bos;
  std::vector<AddedToken> added_tokens;  // "added_tokens_decoder" of tokenizer_config.json
  std::string chat_template;  // the one named "default" of several; chat_template.jinja goes before
};

// Files that are not there leave their settings empty. Throws IoError, or DataError with the file's
// name.
TokenizerSettings read_settings(const std::filesystem::path& folder);

std::string read_file(const std::filesystem::path& path);  // whole; throws IoError
// Throws IoError, or DataError "FILE: …".
nlohmann::json read_json_file(const std::filesystem::path& path);

// A member of "added_tokens". Throws DataError, without a file's name.
AddedToken read_added_token(const nlohmann::json& description, std::int32_t id);

}  // namespace kvscope
