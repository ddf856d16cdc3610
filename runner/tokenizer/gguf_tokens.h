// The keys that GGUF's tokenizers share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runner/model/gguf_file.h"

namespace kvscope {

enum class GgufTokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Each throws DataError, with the file's name, where a key is missing or of no use.
std::vector<std::string_view> required_strings(const GgufFile& file, std::string_view key);
std::vector<std::string_view> gguf_tokens(const GgufFile& file);  // at least one
std::vector<std::int64_t> gguf_token_types(const GgufFile& file);
std::optional<std::int32_t> gguf_token_id(const GgufFile& file, std::string_view key);
std::vector<float> gguf_scores(const GgufFile& file);

}  // namespace kvscope
