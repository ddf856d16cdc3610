#include "runner/tokenizer/load_scored.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runner/base/error.h"
#include "runner/tokenizer/bpe_tokenizer.h"
#include "runner/tokenizer/gguf_tokens.h"

namespace kvscope {
namespace {

constexpr const char* kSpace = "▁";  // U+2581, SentencePiece's mark of a space

Normalizer space_marks(bool prefix) {
  std::vector<Normalizer::Step> steps;
  if (prefix) steps.push_back(prepend_step(kSpace));
  steps.push_back(replace_step(" ", kSpace));
  return Normalizer(std::move(steps));
}

struct ScoredVocabulary {
  BpeDescription description;
  std::vector<float> scores;  // as BpeModel::add_scored_merges wants them
  std::vector<AddedToken> added;
};

ScoredVocabulary read_vocabulary(const GgufFile& file) {
  const auto tokens = gguf_tokens(file);
  const auto types = gguf_token_types(file);
  const auto scores = gguf_scores(file);
  if (types.size() != tokens.size() || scores.size() != tokens.size()) {
    file.fail("lists " + std::to_string(types.size()) + " token types and " +
              std::to_string(scores.size()) + " scores for " + std::to_string(tokens.size()) +
              " tokens; convert the model again");
  }
  ScoredVocabulary v;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto type = static_cast<GgufTokenType>(types[i]);
    const auto id = static_cast<std::int32_t>(i);
    const std::string text(tokens[i]);
    const bool special = type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
    if (special || type == GgufTokenType::kUserDefined) {
      v.added.push_back({.text = text, .id = id, .special = special});
    }
    if (type == GgufTokenType::kControl || type == GgufTokenType::kUnused) continue;
    v.description.vocabulary.emplace_back(text, id);
    v.scores.push_back(type == GgufTokenType::kNormal ? scores[i]
                                                      : std::numeric_limits<float>::quiet_NaN());
    if (type == GgufTokenType::kUnknown) v.description.unknown = text;
  }
  v.description.fuse_unknown = true;
  v.description.byte_fallback = true;
  return v;
}

BpeTokenizerParts read_parts(const GgufFile& file) {
  ScoredVocabulary v = read_vocabulary(file);
  BpeTokenizerParts parts{
      .normalizer = space_marks(file.boolean("tokenizer.ggml.add_space_prefix").value_or(true)),
      .pretokenizer = {},
      .model = BpeModel(std::move(v.description)),
      .added_tokens = std::move(v.added),
      .decoding = {.byte_symbols = false, .byte_tokens = true, .space = kSpace},
      .bos = gguf_token_id(file, "tokenizer.ggml.bos_token_id"),
      .eos = gguf_token_id(file, "tokenizer.ggml.eos_token_id"),
      .adds_bos = file.boolean("tokenizer.ggml.add_bos_token").value_or(true),
      .chat_template = std::string(file.string("tokenizer.chat_template").value_or(""))};
  parts.model.add_scored_merges(v.scores);
  return parts;
}

}  // namespace

std::unique_ptr<Tokenizer> load_scored_tokenizer(const GgufFile& file) {
  try {
    return std::make_unique<BpeTokenizer>(read_parts(file));
  } catch (const DataError& error) {
    const std::string what = error.what();
    if (what.starts_with(file.name())) throw;
    file.fail(what + "; convert the model again");
  }
}

}  // namespace kvscope
