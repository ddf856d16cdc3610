#include "runner/tokenizer/load.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runner/base/error.h"
#include "runner/tokenizer/byte_bpe.h"

namespace kvscope {
namespace {

constexpr std::int64_t kControlType = 3;
constexpr std::int64_t kUserDefinedType = 4;

std::vector<std::string_view> required_strings(const GgufFile& file, std::string_view key) {
  auto values = file.strings(key);
  if (!values) file.fail("key " + quoted(key) + " is missing; convert the model again");
  return *std::move(values);
}

std::optional<std::int32_t> token_id(const GgufFile& file, std::string_view key) {
  const auto id = file.integer(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
    file.fail("key " + quoted(key) + " is no token id; convert the model again");
  }
  return static_cast<std::int32_t>(*id);
}

TokenKind kind_of(std::int64_t type) {
  if (type == kControlType) return TokenKind::kControl;
  return type == kUserDefinedType ? TokenKind::kUserDefined : TokenKind::kText;
}

// "left right"; symbols hold no space.
std::pair<std::string, std::string> split_merge(const GgufFile& file, std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == text.size() ||
      text.find(' ', space + 1) != std::string_view::npos) {
    file.fail("merge " + quoted(text) + " is no pair of tokens; convert the model again");
  }
  return {std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
}

BpeVocabulary read_vocabulary(const GgufFile& file) {
  BpeVocabulary v;
  for (const auto token : required_strings(file, "tokenizer.ggml.tokens"))
    v.tokens.emplace_back(token);
  if (v.tokens.empty() || v.tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    file.fail("lists " + std::to_string(v.tokens.size()) + " tokens; convert the model again");
  }
  if (const auto types = file.integers("tokenizer.ggml.token_type")) {
    for (const std::int64_t type : *types) v.kinds.push_back(kind_of(type));
  } else {
    file.fail("key 'tokenizer.ggml.token_type' is missing; convert the model again");
  }
  for (const auto merge : required_strings(file, "tokenizer.ggml.merges")) {
    v.merges.push_back(split_merge(file, merge));
  }
  const auto pretokenizer = file.string("tokenizer.ggml.pre");
  if (!pretokenizer) {
    file.fail(
        "key 'tokenizer.ggml.pre' is missing, so how it cuts words is unknown; convert the model "
        "again");
  }
  v.pretokenizer = *pretokenizer;
  v.bos = token_id(file, "tokenizer.ggml.bos_token_id");
  v.eos = token_id(file, "tokenizer.ggml.eos_token_id");
  v.adds_bos = file.boolean("tokenizer.ggml.add_bos_token");
  v.chat_template = file.string("tokenizer.chat_template").value_or("");
  return v;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const GgufFile& file) {
  const auto model = file.string("tokenizer.ggml.model");
  if (!model) file.fail("holds no tokenizer; use a model file with one");
  if (*model != "gpt2") {
    file.fail("tokenizer " + quoted(*model) +
              " is not supported; known is 'gpt2' (byte-level BPE)");
  }
  BpeVocabulary vocabulary = read_vocabulary(file);
  try {
    return std::make_unique<ByteBpe>(std::move(vocabulary));
  } catch (const DataError& error) {
    file.fail(error.what());
  }
}

}  // namespace kvscope
