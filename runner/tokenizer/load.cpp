#include "runner/tokenizer/load.h"

#include <string>
#include <utility>
#include <vector>

#include "runner/base/error.h"
#include "runner/tokenizer/byte_bpe.h"
#include "runner/tokenizer/gguf_tokens.h"
#include "runner/tokenizer/load_scored.h"

namespace kvscope {
namespace {

TokenKind kind_of(std::int64_t type) {
  if (type == static_cast<std::int64_t>(GgufTokenType::kControl)) return TokenKind::kControl;
  return type == static_cast<std::int64_t>(GgufTokenType::kUserDefined) ? TokenKind::kUserDefined
                                                                        : TokenKind::kText;
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
  for (const auto token : gguf_tokens(file)) v.tokens.emplace_back(token);
  for (const std::int64_t type : gguf_token_types(file)) v.kinds.push_back(kind_of(type));
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
  v.bos = gguf_token_id(file, "tokenizer.ggml.bos_token_id");
  v.eos = gguf_token_id(file, "tokenizer.ggml.eos_token_id");
  v.adds_bos = file.boolean("tokenizer.ggml.add_bos_token");
  v.chat_template = file.string("tokenizer.chat_template").value_or("");
  return v;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const GgufFile& file) {
  const auto model = file.string("tokenizer.ggml.model");
  if (!model) file.fail("holds no tokenizer; use a model file with one");
  if (*model == "llama") return load_scored_tokenizer(file);
  if (*model != "gpt2") {
    file.fail(
        "tokenizer " + quoted(*model) +
        " is not supported; known are 'gpt2' (byte-level BPE) and 'llama' (SentencePiece BPE)");
  }
  BpeVocabulary vocabulary = read_vocabulary(file);
  try {
    return std::make_unique<ByteBpe>(std::move(vocabulary));
  } catch (const DataError& error) {
    file.fail(error.what());
  }
}

}  // namespace kvscope
