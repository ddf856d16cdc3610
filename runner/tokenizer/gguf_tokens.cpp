#include "runner/tokenizer/gguf_tokens.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace kvscope {

std::vector<std::string_view> required_strings(const GgufFile& file, std::string_view key) {
  auto values = file.strings(key);
  if (!values) file.fail("key " + quoted(key) + " is missing; convert the model again");
  return *std::move(values);
}

std::vector<std::string_view> gguf_tokens(const GgufFile& file) {
  auto tokens = required_strings(file, "tokenizer.ggml.tokens");
  if (tokens.empty() || tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    file.fail("lists " + std::to_string(tokens.size()) + " tokens; convert the model again");
  }
  return tokens;
}

std::vector<std::int64_t> gguf_token_types(const GgufFile& file) {
  auto types = file.integers("tokenizer.ggml.token_type");
  if (!types) file.fail("key 'tokenizer.ggml.token_type' is missing; convert the model again");
  return *std::move(types);
}

std::optional<std::int32_t> gguf_token_id(const GgufFile& file, std::string_view key) {
  const auto id = file.integer(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
    file.fail("key " + quoted(key) + " is no token id; convert the model again");
  }
  return static_cast<std::int32_t>(*id);
}

std::vector<float> gguf_scores(const GgufFile& file) {
  const auto found = file.metadata().find("tokenizer.ggml.scores");
  if (found == file.metadata().end() || found->second.type != GgufType::kArray ||
      found->second.element != GgufType::kF32) {
    file.fail("key 'tokenizer.ggml.scores' is missing or no list of F32; convert the model again");
  }
  std::vector<float> scores(found->second.count);
  if (!scores.empty()) {
    std::memcpy(scores.data(), found->second.values.data(), scores.size() * sizeof(float));
  }
  return scores;
}

}  // namespace kvscope
